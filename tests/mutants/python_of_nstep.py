"""Mistakes in n-step aggregation, demonstrations and recording. `python` has them in its table."""

from tests.mutants.mutant import Mutant

_BUFFER_TESTS = ("nstep", "nstep_steps", "capture_nstep", "gym")
_DEMO_TESTS = ("demos", "demo_loading", "public_api")

NSTEP_PYTHON_TESTS = {
    "cpreplay/nstep.py": (*_BUFFER_TESTS, "public_api"),
    "cpreplay/nstep_steps.py": ("nstep_steps", "capture_nstep", "public_api"),
    "cpreplay/nstep_state.py": _BUFFER_TESTS,
    "cpreplay/nstep_transitions.py": _BUFFER_TESTS,
    "cpreplay/host_nstep.py": _BUFFER_TESTS,
    "cpreplay/device_nstep.py": ("nstep", "capture_nstep", "nstep_steps"),
    "cpreplay/block_aliases.py": ("nstep_steps", "public_api"),
    "cpreplay/demos/record.py": _DEMO_TESTS,
    "cpreplay/demos/file.py": _DEMO_TESTS,
    "cpreplay/demos/filter.py": _DEMO_TESTS,
    "cpreplay/demos/load.py": ("demo_loading", "demos"),
    "cpreplay/atomic_file.py": ("atomic_file", "demos"),
    "cpreplay/gym/recorder.py": ("gym",),
}

_GAMMA = "not (is_number(gamma) and 0.0 <= gamma <= 1.0)"
_SINGLE = 'isinstance(reward, int | float) or getattr(reward, "ndim", None) == 0'

_NSTEP = [
    # The configuration
    Mutant('("n", n), ("n_envs", n_envs)', '("n", n),'),
    Mutant('("n", n), ("n_envs", n_envs)', '("n_envs", n_envs),'),
    Mutant("not (is_count(value) and value < 2**31)", "not is_count(value)"),
    Mutant("not (is_count(value) and value < 2**31)", "not value < 2**31"),
    Mutant("not (is_count(value) and value < 2**31)", "not (is_count(value) and value <= 2**31)"),
    Mutant("not (is_count(value) and value < 2**31)", "not (is_count(value) and value > 1)"),
    Mutant("not (is_count(value) and value < 2**31)", "False"),
    Mutant("{name}={value!r} has", "{value!r} has"),
    Mutant(_GAMMA, "False"),
    Mutant(_GAMMA, "not 0.0 <= gamma <= 1.0"),
    Mutant(_GAMMA, "is_number(gamma) and (gamma < 0.0 or gamma > 1.0)"),
    Mutant(_GAMMA, "not (is_number(gamma) and 0.0 < gamma <= 1.0)"),
    Mutant(_GAMMA, "not (is_number(gamma) and 0.0 <= gamma < 1.0)"),
    Mutant(_GAMMA, "not (is_number(gamma) and gamma <= 1.0)"),
    Mutant(_GAMMA, "not (is_number(gamma) and 0.0 <= gamma)"),
    Mutant("gamma={gamma!r} has", "gamma has"),
    Mutant("= int(n), int(n_envs), float(gamma)", "= n, n_envs, gamma"),
    Mutant("= int(n), int(n_envs), float(gamma)", "= int(n_envs), int(n), float(gamma)"),
    Mutant(
        "obs_shape,\n            action_shape,\n            obs_dtype=obs_dtype,\n"
        "            action_dtype=action_dtype,",
        "action_shape,\n            obs_shape,\n            obs_dtype=obs_dtype,\n"
        "            action_dtype=action_dtype,",
    ),
    Mutant(
        "            obs_dtype=obs_dtype,\n            action_dtype=action_dtype,\n"
        "            obs_store",
        "            obs_dtype=action_dtype,\n            action_dtype=obs_dtype,\n"
        "            obs_store",
    ),
    Mutant(
        "            action_dtype=action_dtype,\n            obs_store_dtype=obs_store_dtype,\n",
        "            action_dtype=action_dtype,\n            obs_store_dtype=None,\n",
    ),
    Mutant("self._columns[len(TRANSITION) :]]", "self._columns[len(TRANSITION) + 1 :]]"),
    Mutant("self._columns[len(TRANSITION) :]]", "self._columns]"),
    Mutant("if name in _OWN_NAMES]", "if name not in _OWN_NAMES]"),
    Mutant("        if own:\n", "        if False:\n"),
    Mutant("extra_columns: {own[0]!r} is", "extra_columns: it is"),
    # The calls
    Mutant(
        "            obs,\n            action,\n            reward,\n            next_obs,",
        "            next_obs,\n            action,\n            reward,\n            obs,",
    ),
    Mutant("*extra_values(self._extra_names, extra)", "*extra.values()"),
    Mutant("single = self._n_envs == 1 and (", "single = ("),
    Mutant("single = self._n_envs == 1 and (", "single = False and ("),
    Mutant("single = self._n_envs == 1 and (", "single = self._n_envs == 1 or ("),
    Mutant(f"self._n_envs == 1 and (\n            {_SINGLE}\n        )", "self._n_envs == 1"),
    Mutant(_SINGLE, "isinstance(reward, int | float)"),
    Mutant(_SINGLE, 'getattr(reward, "ndim", None) == 0'),
    Mutant(_SINGLE, 'isinstance(reward, float) or getattr(reward, "ndim", None) == 0'),
    Mutant(_SINGLE, 'isinstance(reward, int) or getattr(reward, "ndim", None) == 0'),
    Mutant(_SINGLE, 'isinstance(reward, int | float) or getattr(reward, "ndim", 0) == 0'),
    Mutant(_SINGLE, "isinstance(reward, int | float) or reward.ndim == 0"),
    Mutant("        return self._n\n", "        return self._n_envs\n"),
    Mutant("        return self._n_envs\n", "        return self._n\n"),
    Mutant("        return self._gamma\n", "        return 0.99\n"),
    Mutant("self._ops.check_state(state)()", "self._ops.check_state(state)"),
    # The host's
    Mutant(
        "            self._columns, self._n, self._n_envs, self._gamma\n",
        "            self._columns, self._n_envs, self._n, self._gamma\n",
    ),
    Mutant(
        "            self._columns, self._n, self._n_envs, self._gamma\n",
        "            self._columns, self._n, self._n_envs, 0.99\n",
    ),
    # The device's
    Mutant(
        "DeviceNStep(cupy, self._columns, self._n, self._n_envs, self._gamma)",
        "DeviceNStep(cupy, self._columns, self._n_envs, self._n, self._gamma)",
    ),
    Mutant(
        "DeviceNStep(cupy, self._columns, self._n, self._n_envs, self._gamma)",
        "DeviceNStep(cupy, self._columns, self._n, self._n_envs, 0.99)",
    ),
    Mutant(
        "obs_store_dtype=obs_store_dtype,\n            extra_columns=extra_columns,\n"
        "        )\n        row",
        "obs_store_dtype=obs_store_dtype,\n            extra_columns=None,\n        )\n        row",
    ),
    Mutant('("discount", "truncated", "valid", "pending")', '("truncated", "valid", "pending")'),
    Mutant('("discount", "truncated", "valid", "pending")', '("discount", "valid", "pending")'),
    Mutant('("discount", "truncated", "valid", "pending")', '("discount", "truncated", "pending")'),
    Mutant('("discount", "truncated", "valid", "pending")', '("discount", "truncated", "valid")'),
    Mutant(
        "self._ops.ingest(values, truncated, self._mask(mask), single)",
        "self._ops.ingest(values, terminated, self._mask(mask), single)",
    ),
    Mutant(
        "self._ops.ingest(values, truncated, self._mask(mask), single)",
        "self._ops.ingest(values, truncated, None, single)",
    ),
    Mutant(
        "self._ops.ingest(values, truncated, self._mask(mask), single)",
        "self._ops.ingest(values, truncated, mask, single)",
    ),
    Mutant("self._ops.append(step, stepped)", "self._ops.append(step, None)"),
    Mutant("self._ops.reset(self._mask(mask))", "self._ops.reset(mask)"),
    Mutant("self._ops.reset(self._mask(mask))", "self._ops.reset(None)"),
    Mutant("self._ops.reset(self._mask(mask))", "pass"),
    Mutant(
        "            extra_columns=extra_columns,\n            memory=host_memory(),\n",
        "            extra_columns=None,\n            memory=host_memory(),\n",
    ),
    Mutant(
        "            extra_columns=extra_columns,\n            memory=host_memory(),\n",
        "            extra_columns=extra_columns,\n            memory=None,\n",
    ),
    Mutant(
        "            action_dtype=action_dtype,\n"
        "            extra_columns=extra_columns,\n"
        "            memory=host_memory(),\n",
        "            action_dtype=obs_dtype,\n"
        "            extra_columns=extra_columns,\n"
        "            memory=host_memory(),\n",
    ),
    Mutant(
        "            obs_store_dtype=obs_store_dtype,\n"
        "            action_dtype=action_dtype,\n"
        "            extra_columns=extra_columns,\n"
        "            memory=host_memory(),\n",
        "            obs_store_dtype=None,\n            action_dtype=action_dtype,\n"
        "            extra_columns=extra_columns,\n"
        "            memory=host_memory(),\n",
    ),
    Mutant(
        "            extra_columns=extra_columns,\n            memory=memory,\n",
        "            extra_columns=None,\n            memory=memory,\n",
    ),
    Mutant(
        "            extra_columns=extra_columns,\n            memory=memory,\n",
        "            extra_columns=extra_columns,\n            memory=None,\n",
    ),
    Mutant(
        "            action_dtype=action_dtype,\n"
        "            extra_columns=extra_columns,\n            memory=memory,\n",
        "            action_dtype=obs_dtype,\n"
        "            extra_columns=extra_columns,\n            memory=memory,\n",
    ),
    Mutant(
        "            obs_store_dtype=obs_store_dtype,\n"
        "            action_dtype=action_dtype,\n"
        "            extra_columns=extra_columns,\n            memory=memory,\n",
        "            obs_store_dtype=None,\n            action_dtype=action_dtype,\n"
        "            extra_columns=extra_columns,\n            memory=memory,\n",
    ),
    Mutant("number = device_number(cupy, device)", "number = 0"),
    Mutant("number = device_number(cupy, device)", "number = device"),
    Mutant(
        "with cupy.cuda.Device(number):\n            memory",
        "with cupy.cuda.Device(0):\n            memory",
    ),
    Mutant(
        "with cupy.cuda.Device(number):\n            self._ops",
        "with cupy.cuda.Device(0):\n            self._ops",
    ),
    Mutant("rows = self._n * self._n_envs", "rows = self._n"),
    Mutant("rows = self._n * self._n_envs", "rows = self._n_envs"),
    Mutant("column.elements * column.dtype.itemsize for column", "column.elements for column"),
    Mutant(
        "column.elements * column.dtype.itemsize for column", "column.dtype.itemsize for column"
    ),
    Mutant("column.elements * column.dtype.itemsize for column", "column.stored_nbytes for column"),
    Mutant("memory is not None and needed > memory", "False"),
    Mutant("keeps_windows=False", "keeps_windows=True"),
    Mutant("keeps_windows=True", "keeps_windows=False"),
    Mutant("_nbytes(first_step_columns(self._columns))", "_nbytes(self._columns)"),
    Mutant("_WINDOW_NBYTES = 4 + 1 + 1", "_WINDOW_NBYTES = 4 + 1"),
    Mutant("memory is not None and needed > memory", "memory is not None and needed >= memory"),
    Mutant("memory is not None and needed > memory", "memory is None or needed > memory"),
    Mutant("memory is not None and needed > memory", "memory is not None and needed < memory"),
    Mutant("if self._n_envs != 1:\n            return mask", "if False:\n            return mask"),
    Mutant("if isinstance(mask, bool):", "if False:"),
    Mutant('mask.reshape(1) if getattr(mask, "shape", None) == () else mask', "mask"),
]

_STEPS = [
    # Setting up
    Mutant("if not isinstance(block, ReplaySampleStep):", "if False:"),
    Mutant("if not isinstance(block, ReplaySampleStep):", "if block is None:"),
    Mutant(
        "nstep_buffer_for(block.buffer, n, gamma, n_envs)",
        "nstep_buffer_for(block.buffer, n_envs, gamma, n)",
    ),
    Mutant(
        "nstep_buffer_for(block.buffer, n, gamma, n_envs)",
        "nstep_buffer_for(block.buffer, n, 0.99, n_envs)",
    ),
    Mutant(
        "nstep_buffer_for(block.buffer, n, gamma, n_envs)",
        "nstep_buffer_for(block.buffer, n, gamma, 1)",
    ),
    Mutant(
        "gamma: float, *, n_envs: int = 1) -> None:", "gamma: float, *, n_envs: int = 2) -> None:"
    ),
    Mutant("        return self._block\n", "        return self\n"),
    Mutant("        return self._steps\n", "        return None\n"),
    Mutant("self._block.configure_per(alpha, beta, epsilon)", "pass"),
    Mutant(
        "self._block.configure_per(alpha, beta, epsilon)",
        "self._block.configure_per(beta, alpha, epsilon)",
    ),
    Mutant(
        "self._block.configure_per(alpha, beta, epsilon)", "self._block.configure_per(alpha, beta)"
    ),
    Mutant("alpha: float = ALPHA, beta", "alpha: float = BETA, beta"),
    Mutant("beta: float = BETA", "beta: float = ALPHA"),
    Mutant("epsilon: float = EPSILON", "epsilon: float = 0.0"),
    Mutant("self._block.configure_ere(enable, eta, c_min, k_max)", "pass"),
    Mutant(
        "self._block.configure_ere(enable, eta, c_min, k_max)",
        "self._block.configure_ere(True, eta, c_min, k_max)",
    ),
    Mutant(
        "self._block.configure_ere(enable, eta, c_min, k_max)",
        "self._block.configure_ere(enable, eta, k_max, c_min)",
    ),
    Mutant(
        "self._block.configure_ere(enable, eta, c_min, k_max)", "self._block.configure_ere(enable)"
    ),
    Mutant("eta: float = 0.996", "eta: float = 0.5"),
    Mutant("c_min: int = 1,", "c_min: int = 5000,"),
    Mutant("k_max: int = 1000", "k_max: int = 10"),
    Mutant("enable: bool = True", "enable: bool = False"),
    Mutant("self._block.setup(learning_starts, fixed=fixed)", "self._block.setup(learning_starts)"),
    Mutant("self._block.setup(learning_starts, fixed=fixed)", "self._block.setup(0, fixed=fixed)"),
    Mutant("self._block.setup(learning_starts, fixed=fixed)", "pass"),
    # A step of one environment
    Mutant("if self._steps.n_envs != 1:", "if False:"),
    Mutant("if self._steps.n_envs != 1:", "if self._steps.n_envs == 1:"),
    Mutant('        self._require("add", truncated)\n', ""),
    Mutant('self._require("add", truncated)', 'self._require("add_batch", truncated)'),
    # A step of several
    Mutant('        self._require("add_batch", truncated)\n', ""),
    Mutant('self._require("add_batch", truncated)', 'self._require("add", truncated)'),
    Mutant(
        "obs, action, reward, next_obs, terminated, truncated, mask=mask, **extra\n",
        "obs, action, reward, next_obs, terminated, truncated, mask=None, **extra\n",
    ),
    Mutant(
        "obs, action, reward, next_obs, terminated, truncated, mask=mask, **extra\n",
        "obs, action, reward, next_obs, terminated, terminated, mask=mask, **extra\n",
    ),
    Mutant(
        "obs, action, reward, next_obs, terminated, truncated, mask=mask, **extra\n",
        "next_obs, action, reward, obs, terminated, truncated, mask=mask, **extra\n",
    ),
    Mutant(
        "obs, action, reward, next_obs, terminated, truncated, mask=mask, **extra\n",
        "obs, action, reward, next_obs, terminated, truncated, mask=mask\n",
    ),
    # What is passed on
    Mutant("self._steps.reset(mask)", "pass"),
    Mutant("self._steps.reset(mask)", "self._steps.reset()"),
    Mutant("self._block.pin_demo_prefix(n)", "pass"),
    Mutant("self._block.set_beta(beta)", "pass"),
    Mutant("return self._block.step(step_index)", "return self._block.step(0)"),
    Mutant("return self._block.step(step_index)", "return None"),
    Mutant("self._block.update_priorities(td_errors)", "pass"),
    Mutant("return self._block.count()", "return self._block.count() + 1"),
    Mutant("return self._block.demo_count()", "return 0"),
    Mutant("return self._block.demo_count()", "return self._block.count()"),
    Mutant("        self._block._require_setup(call)\n", ""),
    Mutant("        if truncated is None:\n", "        if False:\n"),
    # The n-step buffer of a replay buffer
    Mutant('discount = columns.get("discount")', 'discount = columns["discount"]'),
    Mutant(
        'discount is None or (discount.shape, discount.dtype.name) != ((), "float32")',
        "discount is None",
    ),
    Mutant(
        'discount is None or (discount.shape, discount.dtype.name) != ((), "float32")',
        'discount is None or discount.dtype.name != "float32"',
    ),
    Mutant(
        'discount is None or (discount.shape, discount.dtype.name) != ((), "float32")',
        "discount is None or discount.shape != ()",
    ),
    Mutant('truncated = columns.get("truncated")', "truncated = None"),
    Mutant(
        'truncated is not None and (truncated.shape, truncated.dtype.name) != ((), "bool")', "False"
    ),
    Mutant(
        'truncated is not None and (truncated.shape, truncated.dtype.name) != ((), "bool")',
        'truncated is not None and truncated.dtype.name != "bool"',
    ),
    Mutant(
        'truncated is not None and (truncated.shape, truncated.dtype.name) != ((), "bool")',
        "truncated is not None and truncated.shape != ()",
    ),
    Mutant(
        'truncated is not None and (truncated.shape, truncated.dtype.name) != ((), "bool")',
        'truncated is None or (truncated.shape, truncated.dtype.name) != ((), "bool")',
    ),
    Mutant("column.name: (column.shape, column.dtype)", "column.name: ((), column.dtype)"),
    Mutant("column.name: (column.shape, column.dtype)", 'column.name: (column.shape, "float32")'),
    Mutant(
        "for column in buffer.columns[len(TRANSITION) :]",
        "for column in buffer.columns[len(TRANSITION) + 1 :]",
    ),
    Mutant('not in ("discount", "truncated")\n', 'not in ("discount",)\n'),
    Mutant('not in ("discount", "truncated")\n', 'not in ("truncated",)\n'),
    Mutant("GPUNStepBuffer if isinstance(buffer, StoreReplayGpu) else NStepBuffer", "NStepBuffer"),
    Mutant(
        "GPUNStepBuffer if isinstance(buffer, StoreReplayGpu) else NStepBuffer", "GPUNStepBuffer"
    ),
    Mutant('columns["obs"].shape,\n', 'columns["action"].shape,\n'),
    Mutant('columns["action"].shape,\n', 'columns["obs"].shape,\n'),
    Mutant("        gamma,\n        n_envs=n_envs,", "        0.99,\n        n_envs=n_envs,"),
    Mutant("        n_envs=n_envs,\n", ""),
    Mutant('        obs_dtype=columns["obs"].dtype,\n', ""),
    Mutant('obs_dtype=columns["obs"].dtype', 'obs_dtype=columns["obs"].stored'),
    Mutant('        obs_store_dtype=columns["obs"].stored,\n', ""),
    Mutant('        action_dtype=columns["action"].dtype,\n', ""),
    Mutant("        extra_columns=extra,\n", ""),
    Mutant("return self._block.batch_size", "return 1"),
    Mutant(
        "                obs, action, reward, next_obs, terminated, truncated, **extra\n",
        "                obs, action, reward, next_obs, terminated, False, **extra\n",
    ),
    Mutant(
        "                obs, action, reward, next_obs, terminated, truncated, **extra\n",
        "                obs, action, reward, next_obs, truncated, terminated, **extra\n",
    ),
    Mutant(
        "                obs, action, reward, next_obs, terminated, truncated, **extra\n",
        "                next_obs, action, reward, obs, terminated, truncated, **extra\n",
    ),
    Mutant(
        "                obs, action, reward, next_obs, terminated, truncated, **extra\n",
        "                obs, action, reward, next_obs, terminated, truncated\n",
    ),
    Mutant(
        "                obs, action, reward, next_obs, terminated, truncated, **extra\n"
        "            )\n            store_windows(self._block, windows)\n",
        "                obs, action, reward, next_obs, terminated, truncated, **extra\n"
        "            )\n",
    ),
    Mutant(
        "                obs, action, reward, next_obs, terminated, truncated, mask=mask, **extra\n"
        "            )\n            store_windows(self._block, windows)\n",
        "                obs, action, reward, next_obs, terminated, truncated, mask=mask, **extra\n"
        "            )\n",
    ),
    Mutant(
        "        with self._lock:\n            windows = self._steps.append(\n"
        "                obs, action, reward, next_obs, terminated, truncated, **extra\n",
        "        if True:\n            windows = self._steps.append(\n"
        "                obs, action, reward, next_obs, terminated, truncated, **extra\n",
    ),
    Mutant(
        "        with self._lock:\n            windows = self._steps.append(\n"
        "                obs, action, reward, next_obs, terminated, truncated, "
        "mask=mask, **extra\n",
        "        if True:\n            windows = self._steps.append(\n"
        "                obs, action, reward, next_obs, terminated, truncated, "
        "mask=mask, **extra\n",
    ),
    Mutant("on_device = isinstance(block.buffer, StoreReplayGpu)", "on_device = False"),
    Mutant(
        "on_device = isinstance(block.buffer, StoreReplayGpu)",
        "on_device = True",
        equivalent="on the host it is a mask of True alone, which costs more",
    ),
    Mutant(
        "    if len(w) or on_device:\n",
        "    if True:\n",
        equivalent="to add no row changes nothing",
    ),
    Mutant("    if len(w) or on_device:\n", "    if len(w) > 1 or on_device:\n"),
    Mutant("mask=w.valid if on_device else None", "mask=None"),
    Mutant(
        "mask=w.valid if on_device else None",
        "mask=w.valid",
        equivalent="on the host it is a mask of True alone, which costs more",
    ),
    Mutant("w.terminated, w.truncated,", "w.terminated, w.terminated,"),
    Mutant("w.terminated, w.truncated,", "w.truncated, w.truncated,"),
    Mutant("discount=w.discount", "discount=w.reward"),
    Mutant("w.obs, w.action, w.reward, w.next_obs", "w.next_obs, w.action, w.reward, w.obs"),
    Mutant("discount=w.discount, **w.extra", "discount=w.discount"),
]

_STATE = [
    Mutant('unstored_column("truncated", "bool")', 'unstored_column("truncated", "uint8")'),
    Mutant('unstored_column("truncated", "bool")', 'unstored_column("terminated", "bool")'),
    Mutant('_FIRST_STEP = ("obs", "action", "reward")', '_FIRST_STEP = ("obs", "action")'),
    Mutant('_FIRST_STEP = ("obs", "action", "reward")', '_FIRST_STEP = ("obs", "reward")'),
    Mutant('_FIRST_STEP = ("obs", "action", "reward")', '_FIRST_STEP = ("action", "reward")'),
    Mutant(
        '_FIRST_STEP = ("obs", "action", "reward")',
        '_FIRST_STEP = ("obs", "action", "reward", "next_obs")',
    ),
    Mutant(
        '_FIRST_STEP = ("obs", "action", "reward")',
        '_FIRST_STEP = ("obs", "action", "reward", "terminated")',
    ),
    Mutant(
        "column.name in _FIRST_STEP or column.name not in TRANSITION", "column.name in _FIRST_STEP"
    ),
    Mutant(
        "column.name in _FIRST_STEP or column.name not in TRANSITION",
        "column.name not in TRANSITION",
    ),
    Mutant("    if rows != n_envs:\n", "    if False:\n"),
    Mutant("    if rows != n_envs:\n", "    if rows > n_envs:\n"),
    Mutant("    if rows != n_envs:\n", "    if rows < n_envs:\n"),
    # Out of rings
    Mutant(
        "np.arange(len(count))[:, None], np.arange(n)",
        "np.arange(len(count))[:, None], np.arange(n)[::-1]",
    ),
    Mutant(
        "slots = env * n + (start[:, None] + age) % n",
        "slots = (start[:, None] + age) % n + 0 * env",
    ),
    Mutant("slots = env * n + (start[:, None] + age) % n", "slots = env * n + age % n"),
    Mutant(
        "slots = env * n + (start[:, None] + age) % n", "slots = env + (start[:, None] + age) % n"
    ),
    Mutant(
        "slots = env * n + (start[:, None] + age) % n",
        "slots = env * n + (start[:, None] + age + 1) % n",
    ),
    Mutant('{"pending": count.copy()}', '{"pending": count}'),
    Mutant('{"pending": count.copy()}', '{"pending": start.copy()}'),
    Mutant("        state[name][age >= count[:, None]] = 0\n", ""),
    Mutant("[age >= count[:, None]] = 0", "[age > count[:, None]] = 0"),
    Mutant("[age >= count[:, None]] = 0", "[age < count[:, None]] = 0"),
    Mutant("[age >= count[:, None]] = 0", "[age >= count[0]] = 0"),
    # What is put back
    Mutant(
        '"pending": ((n_envs,), np.dtype(np.int64))', '"pending": ((n_envs,), np.dtype(np.int32))'
    ),
    Mutant('"pending": ((n_envs,), np.dtype(np.int64))', '"pending": ((1,), np.dtype(np.int64))'),
    Mutant(
        "((n_envs, n, *column.shape), column.dtype)", "((n, n_envs, *column.shape), column.dtype)"
    ),
    Mutant(
        "((n_envs, n, *column.shape), column.dtype)", "((n_envs * n, *column.shape), column.dtype)"
    ),
    Mutant(
        "((n_envs, n, *column.shape), column.dtype)", "((n_envs, n, *column.shape), column.stored)"
    ),
    Mutant("    if set(state) != set(wanted):\n", "    if False:\n"),
    Mutant("    if set(state) != set(wanted):\n", "    if not set(state) >= set(wanted):\n"),
    Mutant("    if set(state) != set(wanted):\n", "    if not set(state) <= set(wanted):\n"),
    Mutant("{name: np.asarray(value) for name, value in state.items()}", "dict(state)"),
    Mutant(
        "arrays[name].shape != shape or arrays[name].dtype != dtype", "arrays[name].shape != shape"
    ),
    Mutant(
        "arrays[name].shape != shape or arrays[name].dtype != dtype", "arrays[name].dtype != dtype"
    ),
    Mutant(
        "arrays[name].shape != shape or arrays[name].dtype != dtype",
        "arrays[name].shape != shape and arrays[name].dtype != dtype",
    ),
    Mutant(
        "arrays[name].shape != shape or arrays[name].dtype != dtype",
        "arrays[name].size != np.prod(shape) or arrays[name].dtype != dtype",
    ),
    Mutant("not ((pending >= 0) & (pending < n)).all()", "False"),
    Mutant("not ((pending >= 0) & (pending < n)).all()", "not (pending < n).all()"),
    Mutant("not ((pending >= 0) & (pending < n)).all()", "not (pending >= 0).all()"),
    Mutant(
        "not ((pending >= 0) & (pending < n)).all()", "not ((pending > 0) & (pending < n)).all()"
    ),
    Mutant(
        "not ((pending >= 0) & (pending < n)).all()", "not ((pending >= 0) & (pending <= n)).all()"
    ),
    Mutant(
        "not ((pending >= 0) & (pending < n)).all()",
        "not ((pending >= 0) & (pending < n - 1)).all()",
    ),
    Mutant(
        "not ((pending >= 0) & (pending < n)).all()", "not ((pending >= 0) & (pending < n)).any()"
    ),
    Mutant("[0, {n})", "[0, {n - 1})"),
    Mutant("    if not isinstance(state, Mapping):\n", "    if False:\n"),
    Mutant("sorted(map(str, state))", "sorted(state)"),
]

_TRANSITIONS = [
    Mutant("return len(self.reward)", "return len(self.reward) - 1"),
    Mutant("return len(self.reward)", "return int(self.valid.sum())"),
    Mutant("@attrs.frozen(kw_only=True, eq=False)", "@attrs.frozen(kw_only=True)"),
    Mutant("@attrs.frozen(kw_only=True, eq=False)", "@attrs.define(kw_only=True, eq=False)"),
]

_HOST = [
    # Errors of NumPy that a card does not have
    Mutant(
        '{"over": "ignore", "under": "ignore", "invalid": "ignore"}',
        '{"under": "ignore", "invalid": "ignore"}',
    ),
    Mutant(
        '{"over": "ignore", "under": "ignore", "invalid": "ignore"}',
        '{"over": "ignore", "invalid": "ignore"}',
    ),
    Mutant(
        '{"over": "ignore", "under": "ignore", "invalid": "ignore"}',
        '{"over": "ignore", "under": "ignore"}',
    ),
    # Pending steps
    Mutant(
        "attrs.evolve(column, stored=column.dtype) for column in columns",
        "column for column in columns",
    ),
    Mutant("[column for column in columns if column.quantized]", "[]"),
    Mutant(
        "[column for column in columns if column.quantized]",
        "[column for column in columns if column.quantized][:1]",
    ),
    Mutant(
        "[column for column in columns if column.quantized]",
        "[column for column in columns if column.quantized][1:]",
    ),
    Mutant(
        "np.zeros((n_envs * n, *column.shape), column.dtype)",
        "np.zeros((n_envs * n, *column.shape))",
    ),
    Mutant(
        "np.zeros((n_envs * n, *column.shape), column.dtype)",
        "np.zeros((n_envs * n + 1, *column.shape), column.dtype)",
    ),
    Mutant(
        "np.zeros((n_envs * n, *column.shape), column.dtype)",
        "np.empty((n_envs * n, *column.shape), column.dtype)",
        equivalent="a slot is given once it has been written, and state has 0 for the others",
    ),
    Mutant("self._base = np.arange(n_envs) * n ", "self._base = np.arange(n_envs) "),
    Mutant("self._base = np.arange(n_envs) * n ", "self._base = np.zeros(n_envs, np.int64) "),
    Mutant(
        "self._start = np.zeros(n_envs, np.int64)",
        "self._start = np.ones(n_envs, np.int64)",
        equivalent="a ring may begin anywhere",
    ),
    Mutant("self._count = np.zeros(n_envs, np.int64)", "self._count = np.ones(n_envs, np.int64)"),
    Mutant("self._count = np.zeros(n_envs, np.int64)", "self._count = np.zeros(n_envs, np.int32)"),
    # What comes in
    Mutant(
        "given = (*values, truncated)\n        if single",
        "given = (*values, False)\n        if single",
    ),
    Mutant("np.asarray(value, column.dtype)[None] for", "np.asarray(value, column.dtype) for"),
    Mutant("np.asarray(value, column.dtype)[None] for", "np.asarray(value)[None] for"),
    Mutant(
        "np.asarray(value, column.dtype)[None] for",
        "np.array(value, column.dtype)[None] for",
        equivalent="a copy more of what is only read",
    ),
    Mutant("        check_envs(rows, self._n_envs)\n", ""),
    Mutant(
        "stepped = None if mask is None else self._inputs.mask(mask, rows)[0]", "stepped = None"
    ),
    Mutant(
        "stepped = None if mask is None else self._inputs.mask(mask, rows)[0]",
        "stepped = None if mask is None else np.asarray(mask)",
    ),
    Mutant(
        "values_of_steps = step[column.name] if stepped is None else step[column.name][stepped]",
        "values_of_steps = step[column.name]",
    ),
    Mutant(
        "values_of_steps = step[column.name] if stepped is None else step[column.name][stepped]",
        "values_of_steps = step[column.name][stepped]",
        equivalent="None adds an axis, and the check looks at each value",
    ),
    Mutant(
        "values_of_steps = step[column.name] if stepped is None else step[column.name][stepped]",
        "values_of_steps = step[column.name] if stepped is None else step[column.name][~stepped]",
    ),
    Mutant("            refuse_unquantizable(values_of_steps, column)\n", ""),
    Mutant("        return step, stepped\n", "        return step, None\n"),
    # A step
    Mutant(
        "slots = self._base + (self._start + self._count) % self._n",
        "slots = (self._start + self._count) % self._n",
    ),
    Mutant(
        "slots = self._base + (self._start + self._count) % self._n",
        "slots = self._base + self._start + self._count",
    ),
    Mutant(
        "slots = self._base + (self._start + self._count) % self._n",
        "slots = self._base + self._count",
    ),
    Mutant(
        "slots = self._base + (self._start + self._count) % self._n",
        "slots = self._base + self._start",
    ),
    Mutant(
        "slots = self._base + (self._start + self._count) % self._n",
        "slots = self._base + (self._start + self._count + 1) % self._n",
    ),
    Mutant(
        'ended = step["terminated"] | step["truncated"]',
        'ended = step["terminated"] & step["truncated"]',
    ),
    Mutant('ended = step["terminated"] | step["truncated"]', 'ended = step["terminated"].copy()'),
    Mutant('ended = step["terminated"] | step["truncated"]', 'ended = step["truncated"].copy()'),
    Mutant(
        'ended = step["terminated"] | step["truncated"]',
        'ended = step["terminated"] ^ step["truncated"]',
    ),
    Mutant(
        'ended = step["terminated"] | step["truncated"]',
        'ended = step["terminated"]\n        ended |= step["truncated"]',
    ),
    Mutant(
        "                pending[slots] = step[name]\n",
        "                pending[slots] = step[name][0]\n",
    ),
    Mutant("count = self._count + 1", "count = self._count"),
    Mutant("count = self._count + 1", "self._count += 1\n            count = self._count"),
    Mutant("            ended &= stepped\n", ""),
    Mutant("            ended &= stepped\n", "            ended |= ~stepped\n"),
    Mutant(
        "pending[slots[stepped]] = step[name][stepped]",
        "pending[slots] = step[name]",
        equivalent="the slot after the last pending step is free, and filled when one is taken",
    ),
    Mutant(
        "pending[slots[stepped]] = step[name][stepped]",
        "pending[slots[~stepped]] = step[name][~stepped]",
    ),
    Mutant("count = self._count + stepped", "count = self._count + 1"),
    Mutant("count = self._count + stepped", "count = self._count"),
    Mutant("full = count == self._n ", "full = count == self._n - 1 "),
    Mutant(
        "full = count == self._n ",
        "full = count >= self._n ",
        equivalent="fewer than n steps wait, so one more makes n at most",
    ),
    Mutant("full = count == self._n ", "full = count > self._n "),
    Mutant(
        "complete = np.where(ended, count, full)", "complete = np.where(ended, count - 1, full)"
    ),
    Mutant("complete = np.where(ended, count, full)", "complete = np.where(ended, count, 0)"),
    Mutant("complete = np.where(ended, count, full)", "complete = np.where(ended, 1, full)"),
    Mutant("complete = np.where(ended, count, full)", "complete = np.where(ended, count, 1)"),
    Mutant(
        "complete = np.where(ended, count, full)", "complete = np.where(full, 1, count * ended)"
    ),
    Mutant(
        "complete = np.where(ended, count, full)", "complete = np.where(ended, count, full * count)"
    ),
    Mutant(
        "np.nonzero(np.arange(self._n) < complete[:, None])",
        "np.nonzero(np.arange(self._n) <= complete[:, None])",
    ),
    Mutant(
        "np.nonzero(np.arange(self._n) < complete[:, None])",
        "np.nonzero(np.arange(self._n - 1) < complete[:, None])",
    ),
    Mutant(
        "env, age = np.nonzero(np.arange(self._n) < complete[:, None])",
        "age, env = np.nonzero(np.arange(self._n)[:, None] < complete)",
    ),
    Mutant("env, age, count[env] - age)", "env, age, count[env])"),
    Mutant("env, age, count[env] - age)", "env, age, count[env] - age - 1)"),
    Mutant("env, age, count[env] - age)", "env, age, complete[env] - age)"),
    Mutant(
        "moved = full & ~ended",
        "moved = full",
        equivalent="where the episode ended, it is not looked at",
    ),
    Mutant("moved = full & ~ended", "moved = ~ended"),
    Mutant("moved = full & ~ended", "moved = full & ended"),
    Mutant(
        "np.where(ended, 0, (self._start + moved) % self._n)",
        "(self._start + moved) % self._n",
        equivalent="a ring may begin anywhere",
    ),
    Mutant(
        "np.where(ended, 0, (self._start + moved) % self._n)",
        "np.where(ended, 0, self._start + moved)",
        equivalent="all that reads the start takes it modulo n",
    ),
    Mutant(
        "np.where(ended, 0, (self._start + moved) % self._n)", "np.where(ended, 0, self._start)"
    ),
    Mutant(
        "np.where(ended, 0, (self._start + moved) % self._n)",
        "np.where(ended, 0, (self._start + 1) % self._n)",
    ),
    Mutant(
        "np.where(ended, 0, (self._start + moved) % self._n)",
        "np.where(ended, 0, (self._start + 2 * moved) % self._n)",
    ),
    Mutant("np.where(ended, 0, count - moved)", "count - moved"),
    Mutant("np.where(ended, 0, count - moved)", "np.where(ended, 0, count)"),
    Mutant("np.where(ended, 0, count - moved)", "np.where(ended, 0, count - 1)"),
    Mutant("np.where(ended, 0, count - moved)", "np.where(ended, 1, count - moved)"),
    # Forgetting, looking, putting back
    Mutant("            self._count[...] = 0\n", "            self._count[0] = 0\n"),
    Mutant("            self._count[...] = 0\n", "            pass\n"),
    Mutant("            self._count[...] = 0\n", "            self._start[...] = 0\n"),
    Mutant("self._count[self._inputs.mask(mask, self._n_envs)[0]] = 0", "self._count[mask] = 0"),
    Mutant("self._count[self._inputs.mask(mask, self._n_envs)[0]] = 0", "self._count[...] = 0"),
    Mutant(
        "self._count[self._inputs.mask(mask, self._n_envs)[0]] = 0",
        "self._count[~self._inputs.mask(mask, self._n_envs)[0]] = 0",
    ),
    Mutant(
        "self._count[self._inputs.mask(mask, self._n_envs)[0]] = 0",
        "self._count[self._inputs.mask(mask, self._n_envs)[0]] = 1",
    ),
    Mutant("return self._count.copy()", "return self._count"),
    Mutant(
        "pending_state(self._pending, self._start, self._count, self._n)",
        "pending_state(self._pending, 0 * self._start, self._count, self._n)",
    ),
    Mutant(
        "check_state(state, self._kept, self._n, self._n_envs)",
        "check_state(state, self._kept, self._n_envs, self._n)",
    ),
    Mutant(
        "check_state(state, self._kept, self._n, self._n_envs)",
        "check_state(state, self._columns, self._n, self._n_envs)",
    ),
    Mutant(
        "            pending[...] = columns[name].reshape(pending.shape)\n", "            pass\n"
    ),
    Mutant(
        "            pending[...] = columns[name].reshape(pending.shape)\n",
        "            self._pending[name] = columns[name].reshape(pending.shape)\n",
    ),
    Mutant("        self._start[...] = 0\n", ""),
    Mutant("        self._start[...] = 0\n", "        self._start[...] = 1\n"),
    Mutant("        self._count[...] = count\n", ""),
    Mutant("        self._count[...] = count\n", "        self._count = count\n"),
    # Windows
    Mutant(
        "base, first = self._base[env], self._start[env] + age",
        "base, first = self._base[env], self._start[env]",
    ),
    Mutant(
        "base, first = self._base[env], self._start[env] + age",
        "base, first = self._base[env], age",
    ),
    Mutant(
        "base, first = self._base[env], self._start[env] + age",
        "base, first = self._base[0], self._start[env] + age",
    ),
    Mutant('terminated = step["terminated"][env]', 'terminated = step["truncated"][env]'),
    Mutant(
        'terminated = step["terminated"][env]',
        'terminated = step["terminated"][env] | step["truncated"][env]',
    ),
    Mutant(
        "lambda k: rewards[base + (first + k) % self._n]",
        "lambda k: rewards[base + first % self._n]",
    ),
    Mutant(
        "lambda k: rewards[base + (first + k) % self._n]",
        "lambda k: rewards[(first + k) % self._n]",
    ),
    Mutant(
        "lambda k: rewards[base + (first + k) % self._n]",
        "lambda k: rewards[base + (first + k + 1) % self._n]",
    ),
    Mutant(
        "lambda k: rewards[base + (first + k) % self._n]",
        "lambda k: rewards[base + (first + length - 1 - k) % self._n]",
    ),
    Mutant("slots = base + first % self._n", "slots = first % self._n"),
    Mutant("slots = base + first % self._n", "slots = base + first"),
    Mutant("slots = base + first % self._n", "slots = base + (first + 1) % self._n"),
    Mutant('obs=columns["obs"]', 'obs=step["obs"][env]'),
    Mutant('action=columns["action"]', 'action=step["action"][env]'),
    Mutant("            reward=reward,\n", '            reward=columns["reward"],\n'),
    Mutant('next_obs=step["next_obs"][env]', 'next_obs=step["next_obs"]'),
    Mutant('next_obs=step["next_obs"][env]', 'next_obs=step["obs"][env]'),
    Mutant(
        "            terminated=terminated,\n            truncated",
        '            terminated=step["truncated"][env],\n            truncated',
    ),
    Mutant('truncated=step["truncated"][env]', "truncated=~terminated"),
    Mutant('truncated=step["truncated"][env]', 'truncated=step["truncated"][env] & ~terminated'),
    Mutant("            discount=discount,\n", "            discount=reward,\n"),
    Mutant(
        "columns[column.name] for column in self._columns[len(TRANSITION) :]",
        "step[column.name][env] for column in self._columns[len(TRANSITION) :]",
    ),
    Mutant(
        "for column in self._columns[len(TRANSITION) :]",
        "for column in self._columns[len(TRANSITION) + 1 :]",
    ),
    Mutant("valid=np.ones(len(env), bool)", "valid=np.zeros(len(env), bool)"),
    Mutant("valid=np.ones(len(env), bool)", "valid=np.ones(self._n * self._n_envs, bool)"),
    # Returns
    Mutant(
        "total, factor = np.zeros(len(length)), np.ones(len(length))",
        "total, factor = np.zeros(len(length), np.float32), np.ones(len(length))",
    ),
    Mutant(
        "total, factor = np.zeros(len(length)), np.ones(len(length))",
        "total, factor = np.zeros(len(length)), np.ones(len(length), np.float32)",
    ),
    Mutant(
        "total, factor = np.zeros(len(length)), np.ones(len(length))",
        "total, factor = np.zeros(len(length)), np.full(len(length), gamma)",
    ),
    Mutant(
        "total, factor = np.zeros(len(length)), np.ones(len(length))",
        "total, factor = np.ones(len(length)), np.ones(len(length))",
    ),
    Mutant(
        "total, factor = np.zeros(len(length)), np.ones(len(length))",
        "total, factor = np.full(len(length), -0.0), np.ones(len(length))",
    ),
    Mutant("with np.errstate(**_QUIET):", "with np.errstate():"),
    Mutant("range(int(length.max(initial=0)))", "range(int(length.max(initial=0)) - 1)"),
    Mutant("range(int(length.max(initial=0)))", "range(int(length.max()))"),
    Mutant("range(int(length.max(initial=0)))", "range(1, int(length.max(initial=0)))"),
    Mutant("range(int(length.max(initial=0)))", "reversed(range(int(length.max(initial=0))))"),
    Mutant(
        "range(int(length.max(initial=0)))",
        "range(int(length.max(initial=0)) + 1)",
        equivalent="no window has such a step, so nothing is added",
    ),
    Mutant("inside = length > k", "inside = True"),
    Mutant("inside = length > k", "inside = length >= k"),
    Mutant("inside = length > k", "inside = length > k + 1"),
    Mutant(
        "reward = factor * reward_at(k).astype(np.float64)",
        "reward = reward_at(k).astype(np.float64)",
    ),
    Mutant(
        "reward = factor * reward_at(k).astype(np.float64)",
        "reward = factor.astype(np.float32) * reward_at(k)",
    ),
    Mutant(
        "reward = factor * reward_at(k).astype(np.float64)",
        "reward = factor * reward_at(k)",
        equivalent="NumPy makes float64 of the rewards by itself",
    ),
    Mutant(
        "reward = factor * reward_at(k).astype(np.float64)",
        "reward = factor * reward_at(0).astype(np.float64)",
    ),
    Mutant(
        "reward = factor * reward_at(k).astype(np.float64)",
        "reward = gamma**k * reward_at(k).astype(np.float64)",
    ),
    Mutant(
        "np.add(total, reward, out=total, where=inside)",
        "np.subtract(total, reward, out=total, where=inside)",
    ),
    Mutant("np.add(total, reward, out=total, where=inside)", "np.add(total, reward, out=total)"),
    Mutant(
        "np.add(total, reward, out=total, where=inside)",
        "np.add(total, np.where(inside, reward, 0.0), out=total)",
        equivalent="a sum that began with 0.0 is never -0.0",
    ),
    Mutant("            np.multiply(factor, gamma, out=factor, where=inside)\n", ""),
    Mutant(
        "np.multiply(factor, gamma, out=factor, where=inside)",
        "np.multiply(factor, gamma, out=factor)",
    ),
    Mutant(
        "np.multiply(factor, gamma, out=factor, where=inside)",
        "np.add(factor, gamma, out=factor, where=inside)",
    ),
    Mutant(
        "np.multiply(factor, gamma, out=factor, where=inside)",
        "np.multiply(factor, np.float32(gamma), out=factor, where=inside)",
    ),
    Mutant("        factor[terminated] = 0.0\n", ""),
    Mutant("        factor[terminated] = 0.0\n", "        factor[terminated] = -0.0\n"),
    Mutant("        factor[terminated] = 0.0\n", "        factor[~terminated] = 0.0\n"),
    Mutant("        factor[terminated] = 0.0\n", "        total[terminated] = 0.0\n"),
    Mutant(
        "total.astype(np.float32), factor.astype(np.float32)",
        "factor.astype(np.float32), total.astype(np.float32)",
    ),
    Mutant(
        "total.astype(np.float32), factor.astype(np.float32)", "total, factor.astype(np.float32)"
    ),
    Mutant(
        "total.astype(np.float32), factor.astype(np.float32)", "total.astype(np.float32), factor"
    ),
    Mutant(
        "        return total.astype(np.float32), factor",
        "    if True:\n        return total.astype(np.float32), factor",
    ),
    Mutant(
        "        for column in self._quantized:\n            values",
        "        for column in ():\n            values",
    ),
    Mutant(
        "        for column in self._quantized:\n            if",
        "        for column in ():\n            if",
    ),
    Mutant("            if column.name in columns:\n", "            if True:\n"),
    Mutant(
        "                refuse_unquantizable(columns[column.name], column)\n",
        "                pass\n",
    ),
]

_DEVICE = [
    # Memory
    Mutant('        self._card.refuse_capture("making an n-step buffer")\n', ""),
    Mutant(
        "self._n, self._n_envs, self._gamma = n, n_envs, gamma",
        "self._n, self._n_envs, self._gamma = n_envs, n, gamma",
    ),
    Mutant(
        "self._n, self._n_envs, self._gamma = n, n_envs, gamma",
        "self._n, self._n_envs, self._gamma = n, n_envs, np.float32(gamma)",
    ),
    Mutant("DeviceInputs(self._card, (*columns, TRUNCATED))", "DeviceInputs(self._card, columns)"),
    Mutant("rows = n * n_envs\n", "rows = n_envs\n"),
    Mutant("rows = n * n_envs\n", "rows = (n - 1) * n_envs\n"),
    Mutant("rows = n * n_envs\n", "rows = n * n_envs + 1\n"),
    Mutant(
        "cupy.zeros((rows, *column.shape), column.dtype) for column in self._kept",
        "cupy.zeros((rows - 1, *column.shape), column.dtype) for column in self._kept",
    ),
    Mutant(
        "cupy.zeros((rows, *column.shape), column.dtype) for column in self._kept",
        "cupy.empty((rows, *column.shape), column.dtype) for column in self._kept",
        equivalent="a slot is given once it has been written, and state has 0 for the others",
    ),
    Mutant(
        "self._starts = cupy.zeros(n_envs, np.int64)", "self._starts = cupy.empty(n_envs, np.int64)"
    ),
    Mutant(
        "self._starts = cupy.zeros(n_envs, np.int64)", "self._starts = cupy.zeros(n_envs, np.int32)"
    ),
    Mutant("self._starts = cupy.zeros(n_envs, np.int64)", "self._starts = cupy.zeros(1, np.int64)"),
    Mutant(
        "self._counts = cupy.zeros(n_envs, np.int64)", "self._counts = cupy.empty(n_envs, np.int64)"
    ),
    Mutant(
        "self._counts = cupy.zeros(n_envs, np.int64)", "self._counts = cupy.ones(n_envs, np.int64)"
    ),
    Mutant(
        "self._counts = cupy.zeros(n_envs, np.int64)", "self._counts = cupy.zeros(n_envs, np.int32)"
    ),
    Mutant("column.dtype) for column in columns}", "column.stored) for column in columns}"),
    Mutant('obs=out["obs"]', 'obs=self._pending["obs"]'),
    Mutant('action=out["action"]', 'action=self._pending["action"]'),
    Mutant('reward=out["reward"]', 'reward=self._pending["reward"]'),
    Mutant('next_obs=out["next_obs"]', 'next_obs=out["obs"]'),
    Mutant('terminated=out["terminated"],\n', "terminated=self._starts,\n"),
    Mutant("truncated=cupy.zeros(rows, bool)", 'truncated=out["terminated"]'),
    Mutant("truncated=cupy.zeros(rows, bool)", "truncated=cupy.zeros(n_envs, bool)"),
    Mutant("truncated=cupy.zeros(rows, bool)", "truncated=cupy.zeros(rows, np.uint8)"),
    Mutant("discount=cupy.zeros(rows, np.float32)", "discount=cupy.zeros(rows, np.float64)"),
    Mutant("discount=cupy.zeros(rows, np.float32)", 'discount=out["reward"]'),
    Mutant(
        "out[column.name] for column in columns[len(TRANSITION) :]",
        "out[column.name] for column in columns[len(TRANSITION) + 1 :]",
    ),
    Mutant("valid=cupy.zeros(rows, bool)", "valid=cupy.zeros(n_envs, bool)"),
    Mutant("valid=cupy.zeros(rows, bool)", "valid=cupy.zeros(rows, np.uint8)"),
    Mutant("valid=cupy.zeros(rows, bool)", 'valid=out["terminated"]'),
    # What comes in
    Mutant("        self._card.check_current()\n        given =", "        given ="),
    Mutant("given = (*values, truncated)", "given = (*values, False)"),
    Mutant("columns = (*self._columns, TRUNCATED)", "columns = (TRUNCATED, *self._columns)"),
    Mutant(
        "[array[None] for array in self._inputs.row(given)]",
        "self._inputs.row(given)",
        equivalent="an array is given to the kernel by its address",
    ),
    Mutant("        check_envs(rows, self._n_envs)\n", ""),
    Mutant("mask, _ = self._inputs.mask(mask, rows)", "mask = None"),
    Mutant("mask, _ = self._inputs.mask(mask, rows)", "mask = self._cupy.asarray(mask)"),
    # The launch
    Mutant("step, self._out_column(column.name))", "step, self._pending[column.name])"),
    Mutant('if column.name == "next_obs")', 'if column.name == "obs")'),
    Mutant("n=self._n, n_envs=self._n_envs,", "n=self._n_envs, n_envs=self._n,"),
    Mutant("gamma=self._gamma", "gamma=1.0"),
    Mutant(
        "starts=self._starts,\n            counts=self._counts",
        "starts=self._counts,\n            counts=self._starts",
    ),
    Mutant("kept_columns=len(kept)", "kept_columns=len(kept) - 1"),
    Mutant("kept_columns=len(kept)", "kept_columns=3"),
    Mutant(
        "kept_columns=len(kept)",
        "kept_columns=len(kept) + 1",
        equivalent="behind the columns the struct has an empty one, of rows of 0 bytes",
    ),
    Mutant("_kept(next_obs, None, step, out.next_obs)", "_kept(next_obs, None, step, out.obs)"),
    Mutant('rewards=self._pending["reward"]', 'rewards=step["reward"]'),
    Mutant("reward=out.reward, discount=out.discount", "reward=out.discount, discount=out.reward"),
    Mutant(
        'terminated=step["terminated"], truncated=step["truncated"]',
        'terminated=step["truncated"], truncated=step["terminated"]',
    ),
    Mutant('truncated=step["truncated"], mask=mask', 'truncated=step["truncated"], mask=None'),
    Mutant(
        "terminated_out=out.terminated, truncated_out=out.truncated",
        "terminated_out=out.truncated, truncated_out=out.terminated",
    ),
    Mutant("valid=out.valid,", "valid=out.truncated,"),
    Mutant(
        "(min(self._n_envs, _MAX_BLOCKS),)", "(1,)", equivalent="the grid is strided; it saves time"
    ),
    Mutant(
        "(min(self._n_envs, _MAX_BLOCKS),)",
        "(self._n_envs,)",
        equivalent="2**31 - 1 blocks can be launched, as many as there may be environments",
    ),
    Mutant(
        "(min(self._n_envs, _MAX_BLOCKS),)",
        "(_MAX_BLOCKS,)",
        equivalent="the grid is strided, and a block without an environment ends at once",
    ),
    Mutant(
        "(min(self._n_envs, _MAX_BLOCKS),)",
        "(max(1, self._n_envs - 1),)",
        equivalent="the grid is strided; it saves time",
    ),
    Mutant(
        "_MAX_BLOCKS = 4096", "_MAX_BLOCKS = 2**16", equivalent="the grid is strided; it saves time"
    ),
    Mutant('self._kernels.launch("append_steps"', 'self._kernels.launch("forget_steps"'),
    # Forgetting
    Mutant(
        "        self._card.check_current()\n        if mask is not None:",
        "        if mask is not None:",
    ),
    Mutant("mask, _ = self._inputs.mask(mask, self._n_envs)", "mask = None"),
    Mutant("mask, _ = self._inputs.mask(mask, self._n_envs)", "mask = self._cupy.asarray(mask)"),
    Mutant("grid = blocks_for(self._n_envs)", "grid = (0,)"),
    Mutant(
        "grid = blocks_for(self._n_envs)",
        "grid = blocks_for(1)",
        equivalent="the grid is strided; it saves time",
    ),
    Mutant(
        "grid, self._counts, np.int64(self._n_envs), mask)",
        "grid, self._starts, np.int64(self._n_envs), mask)",
    ),
    Mutant(
        "grid, self._counts, np.int64(self._n_envs), mask)",
        "grid, self._counts, np.int64(1), mask)",
    ),
    Mutant(
        "grid, self._counts, np.int64(self._n_envs), mask)",
        "grid, self._counts, np.int64(self._n_envs), None)",
    ),
    Mutant("return self._counts\n", "return self._counts.copy()\n"),
    # State
    Mutant(
        '        self._card.check_current()\n        self._card.refuse_capture("reading',
        '        self._card.refuse_capture("reading',
    ),
    Mutant('        self._card.refuse_capture("reading pending steps")\n', ""),
    Mutant(
        "pending_state(pending, self._starts.get(), self._counts.get(), self._n)",
        "pending_state(pending, 0 * self._starts.get(), self._counts.get(), self._n)",
    ),
    Mutant(
        "check_state(state, self._kept, self._n, self._n_envs)",
        "check_state(state, self._kept, self._n_envs, self._n)",
    ),
    Mutant(
        "check_state(state, self._kept, self._n, self._n_envs)",
        "check_state(state, self._columns, self._n, self._n_envs)",
    ),
    Mutant(
        '        self._card.check_current()\n        self._card.refuse_capture("restoring',
        '        self._card.refuse_capture("restoring',
    ),
    Mutant('        self._card.refuse_capture("restoring pending steps")\n', ""),
    Mutant("pending.set(np.ascontiguousarray(columns[name]).reshape(pending.shape))", "pass"),
    Mutant(
        "pending.set(np.ascontiguousarray(columns[name]).reshape(pending.shape))",
        "pending.set(columns[name].reshape(pending.shape))",
    ),
    Mutant("        self._starts.set(np.zeros(self._n_envs, np.int64))\n", ""),
    Mutant(
        "self._starts.set(np.zeros(self._n_envs, np.int64))",
        "self._starts.set(np.ones(self._n_envs, np.int64))",
    ),
    Mutant(
        "self._starts.set(np.zeros(self._n_envs, np.int64))",
        "self._starts = self._cupy.zeros(self._n_envs, np.int64)",
    ),
    Mutant("        self._counts.set(np.ascontiguousarray(count))\n", ""),
    Mutant("self._counts.set(np.ascontiguousarray(count))", "self._counts.set(count)"),
    Mutant(
        "self._counts.set(np.ascontiguousarray(count))", "self._counts = self._cupy.asarray(count)"
    ),
    Mutant('        if name == "reward":\n            return None\n', ""),
    Mutant('        if name == "reward":\n', '        if name == "action":\n'),
    Mutant(
        "self._out.extra[name] if name in self._out.extra else getattr(self._out, name)",
        "getattr(self._out, name)",
    ),
    Mutant("nbytes = column.elements * column.dtype.itemsize", "nbytes = column.elements"),
    Mutant("nbytes = column.elements * column.dtype.itemsize", "nbytes = column.dtype.itemsize"),
    Mutant(
        "nbytes = column.elements * column.dtype.itemsize",
        "nbytes = column.elements * column.stored.itemsize",
    ),
    Mutant('column.dtype.kind == "b"', "False"),
    Mutant('column.dtype.kind == "b"', "column.dtype.itemsize == 1"),
    Mutant('column.dtype.kind == "b"', "True"),
    Mutant(
        "return pending, step[column.name], out, nbytes",
        "return out, step[column.name], pending, nbytes",
    ),
]

_ALIASES = [
    Mutant(
        "UniformSampleCpuStep = StoreUniformSampleCpuStep",
        "UniformSampleCpuStep = StorePerSampleCpuStep",
    ),
    Mutant(
        "\nPerSampleCpuStep = StorePerSampleCpuStep",
        "\nPerSampleCpuStep = StoreUniformSampleCpuStep",
    ),
    Mutant(
        "UniformSampleGpuStep = StoreUniformSampleGpuStep",
        "UniformSampleGpuStep = StoreUniformSampleCpuStep",
    ),
    Mutant(
        "\nPerSampleGpuStep = StorePerSampleGpuStep", "\nPerSampleGpuStep = StorePerSampleCpuStep"
    ),
    Mutant(
        "_nstep(StoreUniformSampleCpuStep, obs, act,", "_nstep(StorePerSampleCpuStep, obs, act,"
    ),
    Mutant(
        "_nstep(StorePerSampleCpuStep, obs, act,", "_nstep(StoreUniformSampleCpuStep, obs, act,"
    ),
    Mutant(
        "_nstep(StoreUniformSampleGpuStep, obs, act,", "_nstep(StoreUniformSampleCpuStep, obs, act,"
    ),
    Mutant(
        "_nstep(StorePerSampleGpuStep, obs, act,", "_nstep(StoreUniformSampleGpuStep, obs, act,"
    ),
    *(
        Mutant(text, text.replace(old, new))
        for kind in ("UniformSampleCpu", "PerSampleCpu", "UniformSampleGpu", "PerSampleGpu")
        for text in [f"_nstep(Store{kind}Step, obs, act, batch, cap, n, gamma, n_envs, options)"]
        for old, new in [
            ("n_envs", "1"),
            ("gamma", "0.99"),
            ("options", "{}"),
            ("obs, act", "act, obs"),
            ("batch, cap", "cap, batch"),
            ("cap, n,", "cap, 1,"),
        ]
    ),
    Mutant('columns = {"discount": (), **', "columns = {**"),
    Mutant('columns = {"discount": (), **', 'columns = {"discount": (1,), **'),
    Mutant('**{**options, "extra_columns": columns}', '**{"extra_columns": columns, **options}'),
    Mutant('**{**options, "extra_columns": columns}', "extra_columns=columns"),
    Mutant("NStepSampleStep(block, n, gamma, n_envs=n_envs)", "NStepSampleStep(block, n, gamma)"),
    Mutant(
        "NStepSampleStep(block, n, gamma, n_envs=n_envs)",
        "NStepSampleStep(block, 1, gamma, n_envs=n_envs)",
    ),
    Mutant(
        "NStepSampleStep(block, n, gamma, n_envs=n_envs)",
        "NStepSampleStep(block, n, 0.99, n_envs=n_envs)",
    ),
    Mutant('options.get("extra_columns") or {}', 'options.get("extra_columns", {})'),
    Mutant('options.get("extra_columns") or {}', "{}"),
    Mutant("    if isinstance(columns, Mapping):", "    if True:"),
    Mutant("    if isinstance(columns, Mapping):", "    if columns:"),
]

_RECORD = [
    Mutant("MAX_DIM = 2**27", "MAX_DIM = 2**27 - 1"),
    Mutant("MAX_DIM = 2**27", "MAX_DIM = 2**28"),
    Mutant("INTERVENED, SUCCEEDED = 1, 2", "INTERVENED, SUCCEEDED = 2, 1"),
    Mutant("INTERVENED, SUCCEEDED = 1, 2", "INTERVENED, SUCCEEDED = 1, 4"),
    Mutant(
        '            ("obs", "<f4", (obs_dim,)),\n            ("action", "<f4", (act_dim,)),\n',
        '            ("action", "<f4", (act_dim,)),\n            ("obs", "<f4", (obs_dim,)),\n',
    ),
    Mutant('("obs", "<f4", (obs_dim,))', '("obs", ">f4", (obs_dim,))'),
    Mutant('("action", "<f4", (act_dim,))', '("action", "<f4", (obs_dim,))'),
    Mutant(
        '            ("reward", "<f4"),\n            ("next_obs", "<f4", (obs_dim,)),\n',
        '            ("next_obs", "<f4", (obs_dim,)),\n            ("reward", "<f4"),\n',
    ),
    Mutant('("reward", "<f4")', '("reward", ">f4")'),
    Mutant('("next_obs", "<f4", (obs_dim,))', '("next_obs", "<f4", (act_dim,))'),
    Mutant('("done", "<f4")', '("done", "<u4")'),
    Mutant('("flags", "<u4")', '("flags", ">u4")'),
    Mutant('("start", "<u8"), ("length", "<u8")', '("length", "<u8"), ("start", "<u8")'),
    Mutant('("start", "<u8"), ("length", "<u8")', '("start", "<u4"), ("length", "<u8")'),
    Mutant('("success", "<u4")', '("success", ">u4")'),
    Mutant('("success", "<u4")', '("success", "<u8")'),
    # A set
    Mutant('("obs_dim", obs_dim), ("act_dim", act_dim)', '("obs_dim", obs_dim),'),
    Mutant('("obs_dim", obs_dim), ("act_dim", act_dim)', '("act_dim", act_dim),'),
    Mutant("not (is_count(value) and value <= MAX_DIM)", "not is_count(value)"),
    Mutant("not (is_count(value) and value <= MAX_DIM)", "not value <= MAX_DIM"),
    Mutant(
        "not (is_count(value) and value <= MAX_DIM)", "not (is_count(value) and value < MAX_DIM)"
    ),
    Mutant(
        "not (is_count(value) and value <= MAX_DIM)",
        "not (is_count(value) and 1 < value <= MAX_DIM)",
    ),
    Mutant("= int(obs_dim), int(act_dim)", "= int(act_dim), int(obs_dim)"),
    Mutant("= int(obs_dim), int(act_dim)", "= obs_dim, act_dim"),
    Mutant("row_dtype(self._obs_dim, self._act_dim)", "row_dtype(self._act_dim, self._obs_dim)"),
    Mutant(
        'unstored_column("obs", "float32", (self._obs_dim,))',
        'unstored_column("obs", "float32", (self._act_dim,))',
    ),
    Mutant(
        'unstored_column("obs", "float32", (self._obs_dim,))',
        'unstored_column("obs", "float64", (self._obs_dim,))',
    ),
    Mutant(
        'unstored_column("action", "float32", (self._act_dim,))',
        'unstored_column("action", "float32", (self._obs_dim,))',
    ),
    Mutant(
        'unstored_column("action", "float32", (self._act_dim,))',
        'unstored_column("action", "float64", (self._act_dim,))',
    ),
    Mutant('unstored_column("reward", "float32")', 'unstored_column("reward", "float64")'),
    Mutant('attrs.evolve(obs, name="next_obs")', "obs"),
    Mutant('unstored_column("terminated", "bool")', 'unstored_column("terminated", "float32")'),
    Mutant('unstored_column("intervened", "bool")', 'unstored_column("intervened", "float32")'),
    Mutant("demos = cls(obs_dim, act_dim)", "demos = cls(act_dim, obs_dim)"),
    Mutant("rows[start : start + length]", "rows[start : start + length - 1]"),
    Mutant("rows[start : start + length]", "rows[start:length]"),
    Mutant("rows[start : start + length]", "rows[start:]"),
    Mutant(
        "demos._successes.append(bool(success))",
        "demos._successes.append(success)",
        equivalent="it is 0 or 1, which NumPy takes for a bool",
    ),
    Mutant("demos._successes.append(bool(success))", "demos._successes.append(False)"),
    Mutant("        return self._obs_dim\n", "        return self._act_dim\n"),
    Mutant("        return self._act_dim\n", "        return self._obs_dim\n"),
    Mutant("[np.zeros(0, self._dtype), *self._finished]", "self._finished"),
    Mutant(
        "[np.zeros(0, self._dtype), *self._finished]",
        "[np.zeros(0, self._dtype), *reversed(self._finished)]",
    ),
    Mutant(
        "        return np.concatenate(parts)\n",
        "        return parts[1] if len(parts) == 2 else np.concatenate(parts)\n",
    ),
    Mutant(
        "[len(rows) for rows in self._finished], np.uint64",
        "[len(rows) for rows in self._finished]",
        equivalent="float64, which NumPy makes of the two, has all numbers of rows",
    ),
    Mutant('table["length"] = lengths', 'table["length"] = len(lengths)'),
    Mutant("np.cumsum(lengths, dtype=np.uint64) - lengths", "np.cumsum(lengths, dtype=np.uint64)"),
    Mutant("np.cumsum(lengths, dtype=np.uint64) - lengths", "0"),
    Mutant('        table["success"] = self._successes\n', ""),
    Mutant("return sum(map(len, self._finished))", "return len(self._finished)"),
    Mutant(
        "return sum(map(len, self._finished))",
        "return sum(map(len, self._finished)) + len(self._open or [])",
    ),
    # Recording
    Mutant("        if self._open is not None:\n", "        if False:\n"),
    Mutant("        if self._open is not None:\n", "        if self._open:\n"),
    Mutant("        self._open = []\n", "        self._open = None\n"),
    Mutant(
        '        if self._open is None:\n            raise OrderError("add:',
        '        if False:\n            raise OrderError("add:',
    ),
    Mutant(
        '        if self._open is None:\n            raise OrderError("add:',
        '        if not self._open:\n            raise OrderError("add:',
    ),
    Mutant('if self._open and self._open[-1]["done"][0]:', "if False:"),
    Mutant(
        'if self._open and self._open[-1]["done"][0]:',
        'if self._open and self._open[0]["done"][0]:',
    ),
    Mutant('if self._open and self._open[-1]["done"][0]:', 'if self._open[-1]["done"][0]:'),
    Mutant(
        "values = (obs, action, reward, next_obs, terminated, intervened)",
        "values = (next_obs, action, reward, obs, terminated, intervened)",
    ),
    Mutant(
        "values = (obs, action, reward, next_obs, terminated, intervened)",
        "values = (obs, action, reward, next_obs, intervened, terminated)",
    ),
    Mutant("            if not np.isfinite(array).all():\n", "            if False:\n"),
    Mutant("not np.isfinite(array).all()", "np.isnan(array).any()"),
    Mutant("not np.isfinite(array).all()", "np.isinf(array).any()"),
    Mutant("not np.isfinite(array).all()", "not np.isfinite(array).any()"),
    Mutant(
        "for array, column in zip(arrays, self._columns, strict=True):",
        "for array, column in zip(arrays[:3], self._columns[:3], strict=True):",
    ),
    Mutant(
        "for array, column in zip(arrays, self._columns, strict=True):",
        "for array, column in zip(arrays[1:], self._columns[1:], strict=True):",
    ),
    Mutant(
        '("obs", "action", "reward", "next_obs", "done"), arrays',
        '("obs", "action", "reward", "next_obs"), arrays',
    ),
    Mutant(
        '("obs", "action", "reward", "next_obs", "done"), arrays',
        '("next_obs", "action", "reward", "obs", "done"), arrays',
    ),
    Mutant("INTERVENED * bool(arrays[-1])", "SUCCEEDED * bool(arrays[-1])"),
    Mutant("INTERVENED * bool(arrays[-1])", "INTERVENED"),
    Mutant("INTERVENED * bool(arrays[-1])", "INTERVENED * bool(arrays[-2])"),
    Mutant('        row["flags"] = INTERVENED * bool(arrays[-1])\n', ""),
    Mutant("        self._open.append(row)\n", "        pass\n"),
    Mutant("        self._open.append(row)\n", "        self._open.insert(0, row)\n"),
    Mutant(
        "terminated: Any,\n        intervened: Any = False,",
        "terminated: Any,\n        intervened: Any = True,",
    ),
    # Ends
    Mutant("succeeded = bool(host_array(success, _SUCCESS, None))", "succeeded = bool(success)"),
    Mutant(
        "succeeded = bool(host_array(success, _SUCCESS, None))",
        "episode, self._open = self._open, None\n"
        "        succeeded = bool(host_array(success, _SUCCESS, None))\n"
        "        self._open = episode",
    ),
    Mutant("        if not self._open:\n", "        if self._open is None:\n"),
    Mutant("        if not self._open:\n", "        if False:\n"),
    Mutant("        if succeeded:\n", "        if not succeeded:\n"),
    Mutant("        if succeeded:\n", "        if True:\n"),
    Mutant("        if succeeded:\n", "        if False:\n"),
    Mutant('rows["flags"] |= SUCCEEDED', 'rows["flags"] = SUCCEEDED'),
    Mutant('rows["flags"] |= SUCCEEDED', 'rows["flags"] |= INTERVENED'),
    Mutant('rows["flags"] |= SUCCEEDED', 'rows["flags"][-1] |= SUCCEEDED'),
    Mutant("        self._finished.append(rows)\n", "        self._finished.insert(0, rows)\n"),
    Mutant(
        "        self._successes.append(succeeded)\n        self._open = None\n",
        "        self._successes.append(succeeded)\n",
    ),
    Mutant("        self._successes.append(succeeded)\n", "        self._successes.append(True)\n"),
    Mutant(
        "        self._successes.append(succeeded)\n",
        "        self._successes.insert(0, succeeded)\n",
    ),
    Mutant(
        '        if self._open is None:\n            raise OrderError("discard',
        '        if False:\n            raise OrderError("discard',
    ),
    Mutant(
        '        if self._open is None:\n            raise OrderError("discard',
        '        if not self._open:\n            raise OrderError("discard',
    ),
    Mutant(
        'discard_episode: no episode is open")\n        self._open = None\n',
        'discard_episode: no episode is open")\n',
    ),
    Mutant(
        'discard_episode: no episode is open")\n        self._open = None\n',
        'discard_episode: no episode is open")\n        self._open = []\n',
    ),
    # Counts
    Mutant(
        "episodes=len(self._finished)", "episodes=len(self._finished) + (self._open is not None)"
    ),
    Mutant("episodes=len(self._finished)", "episodes=len(rows)"),
    Mutant("successes=sum(self._successes)", "successes=len(self._successes)"),
    Mutant(
        "            rows=len(rows),\n", "            rows=len(rows) + len(self._open or []),\n"
    ),
    Mutant(
        'np.count_nonzero(rows["flags"] & INTERVENED)',
        'np.count_nonzero(rows["flags"] & SUCCEEDED)',
    ),
    Mutant('np.count_nonzero(rows["flags"] & INTERVENED)', 'np.count_nonzero(rows["flags"])'),
    Mutant(
        'int(np.count_nonzero(rows["flags"] & INTERVENED))',
        'np.count_nonzero(rows["flags"] & INTERVENED)',
        equivalent="it is an int already",
    ),
    Mutant('rows["reward"].mean(dtype=np.float64)', 'rows["reward"].mean()'),
    Mutant('rows["reward"].mean(dtype=np.float64)', 'rows["reward"].sum(dtype=np.float64)'),
    Mutant(' if len(rows) else float("nan")', ""),
    Mutant('if len(rows) else float("nan")', "if len(rows) else 0.0"),
]

_FILE = [
    Mutant('MAGIC = b"MRLDEMO1"', 'MAGIC = b"MRLDEMO2"'),
    Mutant("VERSION = 1\n", "VERSION = 2\n"),
    Mutant('"<8sIIIQI"', '">8sIIIQI"'),
    Mutant('"<8sIIIQI"', '"<8sIIIQQ"'),
    Mutant('"<8sIIIQI"', '"<8sIIIII"'),
    Mutant('"<8sIIIQI"', '"@8sIIIQI"'),
    # Writing
    Mutant(
        "rows, episodes = demos.rows, demos.episodes",
        "rows, episodes = demos.rows[:-1], demos.episodes",
    ),
    Mutant("demos.obs_dim, demos.act_dim, len(rows)", "demos.act_dim, demos.obs_dim, len(rows)"),
    Mutant("len(rows), len(episodes))\n    with", "len(episodes), len(rows))\n    with"),
    Mutant("with replaced_file(path) as file:", 'with open(path, "wb") as file:'),
    Mutant(
        "header + rows.tobytes() + episodes.tobytes()",
        "header + episodes.tobytes() + rows.tobytes()",
    ),
    Mutant("header + rows.tobytes() + episodes.tobytes()", "header + rows.tobytes()"),
    # Reading
    Mutant("dtype = row_dtype(obs_dim, act_dim)", "dtype = row_dtype(act_dim, obs_dim)"),
    Mutant("len(rows) != count or len(episodes) != episode_count", "False"),
    Mutant("len(rows) != count or len(episodes) != episode_count", "len(rows) != count"),
    Mutant(
        "len(rows) != count or len(episodes) != episode_count",
        "len(episodes) != episode_count",
        equivalent="where rows are missing, so is the table behind them",
    ),
    Mutant(
        "len(rows) != count or len(episodes) != episode_count",
        "len(rows) != count and len(episodes) != episode_count",
    ),
    Mutant("    _check_rows(path, rows)\n", ""),
    Mutant(
        "DemoSet._of_arrays(obs_dim, act_dim, rows, episodes)",
        "DemoSet._of_arrays(act_dim, obs_dim, rows, episodes)",
    ),
    # Header
    Mutant("file.read(HEADER.size)", "file.read(HEADER.size + 1)"),
    Mutant("    if not head.startswith(MAGIC):\n", "    if False:\n"),
    Mutant("    if not head.startswith(MAGIC):\n", "    if not head.startswith(MAGIC[:3]):\n"),
    Mutant("    if len(head) < HEADER.size:\n", "    if False:\n"),
    Mutant("    if len(head) < HEADER.size:\n", "    if len(head) < HEADER.size - 1:\n"),
    Mutant("    if len(head) < HEADER.size:\n", "    if len(head) <= HEADER.size:\n"),
    Mutant(
        "_, version, obs_dim, act_dim, rows, episodes = ",
        "_, version, act_dim, obs_dim, rows, episodes = ",
    ),
    Mutant("    if version != VERSION:\n", "    if False:\n"),
    Mutant("    if version != VERSION:\n", "    if version > VERSION:\n"),
    Mutant("    if version != VERSION:\n", "    if version < VERSION:\n"),
    Mutant("not (1 <= obs_dim <= MAX_DIM and 1 <= act_dim <= MAX_DIM)", "False"),
    Mutant(
        "not (1 <= obs_dim <= MAX_DIM and 1 <= act_dim <= MAX_DIM)", "not 1 <= obs_dim <= MAX_DIM"
    ),
    Mutant(
        "not (1 <= obs_dim <= MAX_DIM and 1 <= act_dim <= MAX_DIM)", "not 1 <= act_dim <= MAX_DIM"
    ),
    Mutant(
        "not (1 <= obs_dim <= MAX_DIM and 1 <= act_dim <= MAX_DIM)",
        "not (1 < obs_dim <= MAX_DIM and 1 <= act_dim <= MAX_DIM)",
    ),
    Mutant(
        "not (1 <= obs_dim <= MAX_DIM and 1 <= act_dim <= MAX_DIM)",
        "not (1 <= obs_dim <= MAX_DIM and 1 < act_dim <= MAX_DIM)",
    ),
    Mutant(
        "not (1 <= obs_dim <= MAX_DIM and 1 <= act_dim <= MAX_DIM)",
        "not (0 <= obs_dim <= MAX_DIM and 1 <= act_dim <= MAX_DIM)",
    ),
    Mutant(
        "not (1 <= obs_dim <= MAX_DIM and 1 <= act_dim <= MAX_DIM)",
        "not (1 <= obs_dim <= MAX_DIM and 0 <= act_dim <= MAX_DIM)",
    ),
    Mutant(
        "not (1 <= obs_dim <= MAX_DIM and 1 <= act_dim <= MAX_DIM)",
        "not (1 <= obs_dim and 1 <= act_dim <= MAX_DIM)",
    ),
    Mutant(
        "not (1 <= obs_dim <= MAX_DIM and 1 <= act_dim <= MAX_DIM)",
        "not (1 <= obs_dim <= MAX_DIM and 1 <= act_dim)",
    ),
    Mutant("row = row_dtype(obs_dim, act_dim)", "row = row_dtype(act_dim, obs_dim)"),
    Mutant(
        "HEADER.size + rows * row + episodes * EPISODE.itemsize",
        "rows * row + episodes * EPISODE.itemsize",
    ),
    Mutant(
        "HEADER.size + rows * row + episodes * EPISODE.itemsize",
        "HEADER.size + rows * row + episodes * 24",
    ),
    Mutant(
        "os.fstat(file.fileno()).st_size",
        "os.stat(path).st_size",
        equivalent="the same file, unless another takes its place in between",
    ),
    Mutant("    if length != expected:\n", "    if False:\n"),
    Mutant("    if length != expected:\n", "    if length < expected:\n"),
    Mutant("    if length != expected:\n", "    if length > expected:\n"),
    # Rows
    Mutant(
        'for name in ("obs", "action", "reward", "next_obs"):',
        'for name in ("action", "reward", "next_obs"):',
    ),
    Mutant(
        'for name in ("obs", "action", "reward", "next_obs"):',
        'for name in ("obs", "reward", "next_obs"):',
    ),
    Mutant(
        'for name in ("obs", "action", "reward", "next_obs"):',
        'for name in ("obs", "action", "next_obs"):',
    ),
    Mutant(
        'for name in ("obs", "action", "reward", "next_obs"):',
        'for name in ("obs", "action", "reward"):',
    ),
    Mutant("finite = np.isfinite(rows[name])", "finite = ~np.isnan(rows[name])"),
    Mutant("finite = np.isfinite(rows[name])", "finite = ~np.isinf(rows[name])"),
    Mutant("~finite.all(axis=axes)", "~finite.any(axis=axes)"),
    Mutant("axes = tuple(range(1, finite.ndim))", "axes = ()"),
    Mutant(
        '    _refuse_first(path, "done", ~np.isin(rows["done"], (0.0, 1.0)), "is neither '
        '0 nor 1")\n',
        "",
    ),
    Mutant("(0.0, 1.0)", "(0.0, 1.0, 2.0)"),
    Mutant("(0.0, 1.0)", "(0.0,)"),
    Mutant("(0.0, 1.0)", "(1.0,)"),
    Mutant("~np.uint32(INTERVENED | SUCCEEDED)", "~np.uint32(INTERVENED)"),
    Mutant("~np.uint32(INTERVENED | SUCCEEDED)", "~np.uint32(SUCCEEDED)"),
    Mutant("~np.uint32(INTERVENED | SUCCEEDED)", "~np.uint32(INTERVENED | SUCCEEDED | 4)"),
    Mutant(
        """    _refuse_first(path, "flags", unknown != 0, "has bits without a meaning")\n""", ""
    ),
    Mutant('"flags", unknown != 0,', '"flags", unknown > 4,'),
    Mutant("    if bad.any():\n", "    if bad.all():\n"),
    Mutant("    if bad.any():\n", "    if False:\n"),
    Mutant("int(bad.argmax())", "0"),
    Mutant("int(bad.argmax())", "int(bad.sum())"),
    # Episodes
    Mutant(
        "start != end or not 1 <= length <= rows - start or success > 1",
        "not 1 <= length <= rows - start or success > 1",
    ),
    Mutant(
        "start != end or not 1 <= length <= rows - start or success > 1",
        "start < end or not 1 <= length <= rows - start or success > 1",
    ),
    Mutant(
        "start != end or not 1 <= length <= rows - start or success > 1",
        "start > end or not 1 <= length <= rows - start or success > 1",
    ),
    Mutant(
        "start != end or not 1 <= length <= rows - start or success > 1",
        "start != end or success > 1",
    ),
    Mutant(
        "start != end or not 1 <= length <= rows - start or success > 1",
        "start != end or not length <= rows - start or success > 1",
    ),
    Mutant(
        "start != end or not 1 <= length <= rows - start or success > 1",
        "start != end or not 1 < length <= rows - start or success > 1",
    ),
    Mutant(
        "start != end or not 1 <= length <= rows - start or success > 1",
        "start != end or not 1 <= length or success > 1",
    ),
    Mutant(
        "start != end or not 1 <= length <= rows - start or success > 1",
        "start != end or not 1 <= length < rows - start or success > 1",
    ),
    Mutant(
        "start != end or not 1 <= length <= rows - start or success > 1",
        "start != end or not 1 <= length <= rows or success > 1",
    ),
    Mutant(
        "start != end or not 1 <= length <= rows - start or success > 1",
        "start != end or not 1 <= length <= rows - start",
    ),
    Mutant(
        "start != end or not 1 <= length <= rows - start or success > 1",
        "start != end or not 1 <= length <= rows - start or success > 2",
    ),
    Mutant(
        "start != end or not 1 <= length <= rows - start or success > 1",
        "start != end or not 1 <= length <= rows - start or success != 1",
    ),
    Mutant("        end = start + length\n", "        end = start + length - 1\n"),
    Mutant("        end = start + length\n", "        end = length\n"),
    Mutant("    if end != rows:\n", "    if False:\n"),
    Mutant("    if end != rows:\n", "    if end == rows:\n"),
    Mutant("    if end != rows:\n", "    if end < rows - 1:\n"),
    Mutant("    if not isinstance(demos, DemoSet):\n", "    if False:\n"),
    Mutant("memory is not None and length > memory", "False"),
    Mutant("memory is not None and length > memory", "memory is not None and length >= memory"),
    Mutant("memory is not None and length > memory", "length > memory"),
    Mutant("    _check_episodes(path, episodes, count)\n", ""),
    Mutant("    end = 0\n", "    end = 1\n"),
]

_FILTER = [
    Mutant("successful_only: bool = False", "successful_only: bool = True"),
    Mutant("intervened_only: bool = False", "intervened_only: bool = True"),
    Mutant("@attrs.frozen\n", "@attrs.define\n"),
    Mutant("kept = np.ones(len(demos), bool)", "kept = np.zeros(len(demos), bool)"),
    Mutant("        if self.successful_only:\n", "        if True:\n"),
    Mutant("        if self.successful_only:\n", "        if False:\n"),
    Mutant("        if self.successful_only:\n", "        if self.intervened_only:\n"),
    Mutant(
        'kept &= np.repeat(episodes["success"] != 0, episodes["length"].astype(np.int64))',
        'kept |= np.repeat(episodes["success"] != 0, episodes["length"].astype(np.int64))',
    ),
    Mutant(
        'kept &= np.repeat(episodes["success"] != 0, episodes["length"].astype(np.int64))',
        'kept = ~np.repeat(episodes["success"] != 0, episodes["length"].astype(np.int64))',
    ),
    Mutant(
        'np.repeat(episodes["success"] != 0, episodes["length"].astype(np.int64))',
        'np.repeat(episodes["success"] == 0, episodes["length"].astype(np.int64))',
    ),
    Mutant(
        'np.repeat(episodes["success"] != 0, episodes["length"].astype(np.int64))',
        'np.repeat(episodes["success"] != 0, len(demos) // len(episodes))',
    ),
    Mutant(".astype(np.int64))", ")"),
    Mutant("        if self.intervened_only:\n", "        if True:\n"),
    Mutant("        if self.intervened_only:\n", "        if False:\n"),
    Mutant("        if self.intervened_only:\n", "        elif self.intervened_only:\n"),
    Mutant(
        'kept &= demos.rows["flags"] & INTERVENED != 0',
        'kept = demos.rows["flags"] & INTERVENED != 0',
    ),
    Mutant(
        'kept &= demos.rows["flags"] & INTERVENED != 0',
        'kept |= demos.rows["flags"] & INTERVENED != 0',
    ),
    Mutant('demos.rows["flags"] & INTERVENED != 0', 'demos.rows["flags"] & INTERVENED == 0'),
    Mutant('demos.rows["flags"] & INTERVENED != 0', 'demos.rows["flags"] != 0'),
    Mutant('demos.rows["flags"] & INTERVENED != 0', 'demos.rows["flags"] == INTERVENED'),
    Mutant('demos.rows["flags"] & INTERVENED != 0', 'demos.rows["flags"] & 2 != 0'),
]

_LOAD = [
    # What is given
    Mutant("_kept_rows(path, demos, filter)", "_kept_rows(path, demos, None)"),
    Mutant("    if not sum(len(part) for part, _ in kept):\n", "    if False:\n"),
    Mutant(
        "    if not sum(len(part) for part, _ in kept):\n",
        "    if not all(len(part) for part, _ in kept):\n",
    ),
    Mutant("    if not sum(len(part) for part, _ in kept):\n", "    if not len(kept[0][0]):\n"),
    Mutant("_Target(block_or_buffer, batch_size)", "_Target(block_or_buffer, None)"),
    Mutant("    target.check(sets, sum(len(part) for part, _ in kept))\n", ""),
    Mutant(
        "target.check(sets, sum(len(part) for part, _ in kept))",
        "target.check(sets, sum(map(len, sets)))",
    ),
    Mutant(
        "target.check(sets, sum(len(part) for part, _ in kept))",
        "target.check(sets[:1], sum(len(part) for part, _ in kept))",
    ),
    Mutant(
        "target.check(sets, sum(len(part) for part, _ in kept))",
        "target.check(sets, len(kept[0][0]))",
    ),
    Mutant("    target.add(rows, np.concatenate([part for _, part in kept]))\n", ""),
    Mutant("np.concatenate([part for _, part in kept])", "np.zeros(len(rows), bool)"),
    Mutant("np.concatenate([part for _, part in kept])", "np.ones(len(rows), bool)"),
    # The report
    Mutant("        rows=len(rows),\n", "        rows=sum(map(len, sets)),\n"),
    Mutant("file_rows=sum(map(len, sets))", "file_rows=len(rows)"),
    Mutant("file_rows=sum(map(len, sets))", "file_rows=len(sets[0])"),
    Mutant('rows["reward"].mean(dtype=np.float64)', 'rows["reward"].mean()'),
    Mutant('rows["reward"].mean(dtype=np.float64)', 'rows["reward"].sum(dtype=np.float64)'),
    Mutant(
        'rows["reward"].mean(dtype=np.float64)', 'sets[0].rows["reward"].mean(dtype=np.float64)'
    ),
    # The filter
    Mutant(
        "np.ones(len(rows), bool) if keep is None else np.asarray(keep(demos))",
        "np.asarray(keep(demos))",
    ),
    Mutant(
        "np.ones(len(rows), bool) if keep is None else np.asarray(keep(demos))",
        "np.ones(len(rows), bool) if keep is None else keep(demos)",
    ),
    Mutant("kept.shape != (len(rows),) or kept.dtype != np.dtype(bool)", "False"),
    Mutant(
        "kept.shape != (len(rows),) or kept.dtype != np.dtype(bool)", "kept.shape != (len(rows),)"
    ),
    Mutant(
        "kept.shape != (len(rows),) or kept.dtype != np.dtype(bool)", "kept.dtype != np.dtype(bool)"
    ),
    Mutant(
        "kept.shape != (len(rows),) or kept.dtype != np.dtype(bool)",
        "kept.size != len(rows) or kept.dtype != np.dtype(bool)",
    ),
    # Where windows end
    Mutant(
        "goes_on = np.zeros(len(rows), bool)",
        "goes_on = np.ones(len(rows), bool)",
        equivalent="the last row, which alone is not overwritten, ends an episode",
    ),
    Mutant("goes_on[:-1] = kept[1:]", "goes_on[:-1] = True"),
    Mutant("goes_on[:-1] = kept[1:]", "goes_on[:-1] = kept[:-1]"),
    Mutant("goes_on[:-1] = kept[1:]", "goes_on[:-1] = False"),
    Mutant("goes_on[:-1] = kept[1:]", "goes_on[1:] = kept[:-1]"),
    Mutant(
        '    goes_on[(episodes["start"] + episodes["length"] - 1).astype(np.int64)] = False\n', ""
    ),
    Mutant('(episodes["start"] + episodes["length"] - 1)', '(episodes["length"] - 1)'),
    Mutant('(episodes["start"] + episodes["length"] - 1)', '(episodes["start"])'),
    Mutant(
        '(episodes["start"] + episodes["length"] - 1)',
        '(episodes["start"] + episodes["length"] - 2)',
    ),
    Mutant(
        ".astype(np.int64)] = False",
        "] = False",
        equivalent="NumPy takes unsigned integers for indices too",
    ),
    Mutant("return rows[kept], ~goes_on[kept]", "return rows[kept], ~goes_on[: kept.sum()]"),
    Mutant("return rows[kept], ~goes_on[kept]", "return rows[kept], goes_on[kept]"),
    Mutant("return rows[kept], ~goes_on[kept]", "return rows, ~goes_on"),
    # The target
    Mutant(
        "self._nstep = given if isinstance(given, NStepSampleStep) else None", "self._nstep = None"
    ),
    Mutant("block = given.block if isinstance(given, NStepSampleStep) else given", "block = given"),
    Mutant("            if batch_size is not None:\n", "            if False:\n"),
    Mutant("            if batch_size is not None:\n", "            if batch_size is None:\n"),
    Mutant(
        "self._block: ReplaySampleStep | None = block",
        "self._block: ReplaySampleStep | None = None",
    ),
    Mutant("self._batch_size: int | None = block.batch_size", "self._batch_size: int | None = 1"),
    Mutant("isinstance(block, StoreReplay | StoreReplayGpu)", "isinstance(block, StoreReplay)"),
    Mutant("isinstance(block, StoreReplay | StoreReplayGpu)", "isinstance(block, StoreReplayGpu)"),
    Mutant("isinstance(block, StoreReplay | StoreReplayGpu)", "True"),
    Mutant("= None, block, batch_size", "= None, block, None"),
    # Its checks
    Mutant("((obs, demos.obs_dim), (action, demos.act_dim))", "((obs, demos.obs_dim),)"),
    Mutant("((obs, demos.obs_dim), (action, demos.act_dim))", "((action, demos.act_dim),)"),
    Mutant(
        "((obs, demos.obs_dim), (action, demos.act_dim))",
        "((obs, demos.act_dim), (action, demos.obs_dim))",
    ),
    Mutant("math.prod(column.shape) != width", "column.shape != (width,)"),
    Mutant("math.prod(column.shape) != width", "math.prod(column.shape) < width"),
    Mutant("math.prod(column.shape) != width", "math.prod(column.shape) > width"),
    Mutant("math.prod(column.shape) != width", "False"),
    Mutant('{"discount", "truncated"} if self._nstep else {"truncated"}', '{"truncated"}'),
    Mutant(
        '{"discount", "truncated"} if self._nstep else {"truncated"}', '{"discount", "truncated"}'
    ),
    Mutant(
        '{"discount", "truncated"} if self._nstep else {"truncated"}',
        '{"discount"} if self._nstep else {"truncated"}',
    ),
    Mutant(
        '{"discount", "truncated"} if self._nstep else {"truncated"}',
        '{"discount", "truncated"} if self._nstep else set()',
    ),
    Mutant("        if set(names) - made:\n", "        if False:\n"),
    Mutant("        if set(names) - made:\n", "        if made - set(names):\n"),
    Mutant("        if len(self._buffer):\n", "        if False:\n"),
    Mutant("        if len(self._buffer):\n", "        if len(self._buffer) > 1:\n"),
    Mutant(
        '            self._block._require_setup("load_demos_into_replay")\n', "            pass\n"
    ),
    Mutant('_require_setup("load_demos_into_replay")', '_require_setup("add")'),
    Mutant(
        "isinstance(self._buffer, StoreReplayGpu) and self._batch_size is None",
        "self._batch_size is None",
    ),
    Mutant("isinstance(self._buffer, StoreReplayGpu) and self._batch_size is None", "False"),
    Mutant("        self._buffer._check_pin(rows, self._batch_size, rows)\n", ""),
    Mutant("_check_pin(rows, self._batch_size, rows)", "_check_pin(rows, self._batch_size, 0)"),
    Mutant("_check_pin(rows, self._batch_size, rows)", "_check_pin(1, self._batch_size, rows)"),
    Mutant("_check_pin(rows, self._batch_size, rows)", "_check_pin(rows, None, rows)"),
    # Adding
    Mutant('terminated = rows["done"] != 0.0', 'terminated = rows["done"] == 0.0'),
    Mutant('terminated = rows["done"] != 0.0', 'terminated = rows["done"] > 1.0'),
    Mutant('terminated = rows["done"] != 0.0', 'terminated = rows["done"]'),
    Mutant("truncated = last & ~terminated", "truncated = last"),
    Mutant("truncated = last & ~terminated", "truncated = ~terminated"),
    Mutant("truncated = last & ~terminated", "truncated = np.zeros(len(rows), bool)"),
    Mutant("        if self._nstep is not None:\n", "        if False:\n"),
    Mutant(
        "_windows(steps.n, steps.gamma, [*values, terminated], last)",
        "_windows(1, steps.gamma, [*values, terminated], last)",
    ),
    Mutant(
        "_windows(steps.n, steps.gamma, [*values, terminated], last)",
        "_windows(steps.n, 0.99, [*values, terminated], last)",
    ),
    Mutant(
        "_windows(steps.n, steps.gamma, [*values, terminated], last)",
        "_windows(steps.n, steps.gamma, [*values, truncated], last)",
    ),
    Mutant(
        "_windows(steps.n, steps.gamma, [*values, terminated], last)",
        "_windows(steps.n, steps.gamma, [*values, terminated], ~terminated)",
    ),
    Mutant(
        "values = [windows.obs, windows.action, windows.reward, windows.next_obs]",
        "values = [windows.next_obs, windows.action, windows.reward, windows.obs]",
    ),
    Mutant("values = [windows.obs, windows.action, windows.reward, windows.next_obs]", "pass"),
    Mutant(
        "terminated, truncated = windows.terminated, windows.truncated",
        "terminated = windows.terminated",
    ),
    Mutant(
        "terminated, truncated = windows.terminated, windows.truncated",
        "truncated = windows.truncated",
    ),
    Mutant(
        "terminated, truncated = windows.terminated, windows.truncated",
        "terminated, truncated = windows.truncated, windows.terminated",
    ),
    Mutant('extra["discount"] = windows.discount', 'extra["discount"] = windows.reward'),
    Mutant('if any(column.name == "truncated" for column in columns):', "if False:"),
    Mutant('if any(column.name == "truncated" for column in columns):', "if True:"),
    Mutant(
        "obs, action, reward, next_obs = values\n        self",
        "next_obs, action, reward, obs = values\n        self",
    ),
    Mutant("self._buffer.pin_demo_prefix(len(rows), batch_size=self._batch_size)", "pass"),
    Mutant(
        "self._buffer.pin_demo_prefix(len(rows), batch_size=self._batch_size)",
        "self._buffer.pin_demo_prefix(len(rows) - 1, batch_size=self._batch_size)",
    ),
    Mutant(
        "self._buffer.pin_demo_prefix(len(rows), batch_size=self._batch_size)",
        "self._buffer.pin_demo_prefix(len(rows), batch_size=1)",
    ),
    Mutant("values.reshape(len(values), *column.shape)", "values"),
    # Windows
    Mutant("np.minimum(rows + n - 1, ends[np.searchsorted(ends, rows)])", "rows + n - 1"),
    Mutant(
        "np.minimum(rows + n - 1, ends[np.searchsorted(ends, rows)])",
        "np.minimum(rows + n, ends[np.searchsorted(ends, rows)])",
    ),
    Mutant(
        "np.minimum(rows + n - 1, ends[np.searchsorted(ends, rows)])",
        "np.minimum(rows + n - 2, ends[np.searchsorted(ends, rows)])",
    ),
    Mutant(
        "np.minimum(rows + n - 1, ends[np.searchsorted(ends, rows)])",
        "ends[np.searchsorted(ends, rows)]",
    ),
    Mutant(
        "np.minimum(rows + n - 1, ends[np.searchsorted(ends, rows)])",
        "np.minimum(rows + n - 1, len(rows) - 1)",
    ),
    Mutant(
        "np.minimum(rows + n - 1, ends[np.searchsorted(ends, rows)])",
        'np.minimum(rows + n - 1, np.append(ends, ends[-1])[np.searchsorted(ends, rows, "right")])',
    ),
    Mutant(
        "rewards[np.minimum(rows + k, len(rewards) - 1)]",
        "rewards[np.minimum(rows, len(rewards) - 1)]",
    ),
    Mutant(
        "rewards[np.minimum(rows + k, len(rewards) - 1)]",
        "rewards[np.minimum(rows + k + 1, len(rewards) - 1)]",
    ),
    Mutant("rewards[np.minimum(rows + k, len(rewards) - 1)]", "rewards[rows + k]"),
    Mutant(
        "rewards[np.minimum(rows + k, len(rewards) - 1)]",
        "rewards[(rows + k) % len(rewards)]",
        equivalent="a window's own steps are never beyond the last row",
    ),
    Mutant("        end - rows + 1,\n", "        end - rows,\n"),
    Mutant("        end - rows + 1,\n", "        np.minimum(n, len(rows) - rows),\n"),
    Mutant(
        "        end - rows + 1,\n        terminated[end],\n",
        "        end - rows + 1,\n        terminated,\n",
    ),
    Mutant(
        "        terminated[end],\n        gamma,\n", "        terminated[end],\n        1.0,\n"
    ),
    Mutant("        reward=reward,\n", "        reward=rewards,\n"),
    Mutant("next_obs=next_obs[end]", "next_obs=next_obs"),
    Mutant("terminated=terminated[end]", "terminated=terminated"),
    Mutant("(last & ~terminated)[end]", "last & ~terminated"),
    Mutant("(last & ~terminated)[end]", "last[end]"),
    Mutant("(last & ~terminated)[end]", "~terminated[end]"),
    Mutant("        discount=discount,\n", "        discount=reward,\n"),
    Mutant(
        "[paths] if isinstance(paths, str | os.PathLike | DemoSet) else list(paths)",
        "[paths] if isinstance(paths, os.PathLike | DemoSet) else list(paths)",
    ),
    Mutant(
        "[paths] if isinstance(paths, str | os.PathLike | DemoSet) else list(paths)",
        "[paths] if isinstance(paths, str | DemoSet) else list(paths)",
    ),
    Mutant(
        "[paths] if isinstance(paths, str | os.PathLike | DemoSet) else list(paths)",
        "[paths] if isinstance(paths, str | os.PathLike) else list(paths)",
    ),
    Mutant(
        "[paths] if isinstance(paths, str | os.PathLike | DemoSet) else list(paths)",
        "[paths] if isinstance(paths, str | os.PathLike | DemoSet) else paths",
    ),
    Mutant(
        "[paths] if isinstance(paths, str | os.PathLike | DemoSet) else list(paths)",
        "[paths] if isinstance(paths, str | os.PathLike | DemoSet) else sorted(paths)",
    ),
    Mutant(
        "[paths] if isinstance(paths, str | os.PathLike | DemoSet) else list(paths)",
        "[paths] if isinstance(paths, str | os.PathLike | DemoSet) else list(paths)[::-1]",
    ),
    Mutant("path if isinstance(path, DemoSet) else read_demo_file(path)", "read_demo_file(path)"),
    Mutant('    goes_on &= rows["done"] == 0.0\n', ""),
    Mutant('goes_on &= rows["done"] == 0.0', 'goes_on &= rows["done"] != 0.0'),
    Mutant("    if column.quantized:\n", "    if False:\n"),
    Mutant("        refuse_unquantizable(shaped, column)", "        pass"),
    Mutant('if column.dtype.kind not in "iu":', 'if column.dtype.kind not in "i":'),
    Mutant('if column.dtype.kind not in "iu":', 'if column.dtype.kind not in "u":'),
    Mutant('if column.dtype.kind not in "iu":', 'if column.dtype.kind in "iu":'),
    Mutant(
        "(shaped == np.rint(shaped)) & (shaped >= low) & (shaped < high + 1.0)",
        "(shaped >= low) & (shaped < high + 1.0)",
    ),
    Mutant(
        "(shaped == np.rint(shaped)) & (shaped >= low) & (shaped < high + 1.0)",
        "(shaped == np.rint(shaped)) & (shaped < high + 1.0)",
    ),
    Mutant(
        "(shaped == np.rint(shaped)) & (shaped >= low) & (shaped < high + 1.0)",
        "(shaped == np.rint(shaped)) & (shaped >= low)",
    ),
    Mutant(
        "(shaped == np.rint(shaped)) & (shaped >= low) & (shaped < high + 1.0)",
        "(shaped == np.rint(shaped)) & (shaped > low) & (shaped < high + 1.0)",
    ),
    Mutant(
        "(shaped == np.rint(shaped)) & (shaped >= low) & (shaped < high + 1.0)",
        "(shaped == np.rint(shaped)) & (shaped >= low) & (shaped < high)",
    ),
    Mutant(
        "(shaped == np.rint(shaped)) & (shaped >= low) & (shaped < high + 1.0)",
        "(shaped == np.rint(shaped)) & (shaped >= low) & (shaped <= high + 1.0)",
    ),
    Mutant("    if not whole.all():\n", "    if not whole.any():\n"),
    Mutant("    if not whole.all():\n", "    if False:\n"),
    Mutant("shaped[~whole][0]", "shaped[0]"),
    Mutant("return shaped.astype(column.dtype)", "return shaped"),
    Mutant("return shaped.astype(column.dtype)", "return shaped.astype(np.uint8)"),
]

_ATOMIC = [
    Mutant("target = Path(path).resolve()", "target = Path(path)"),
    Mutant("target = Path(path).resolve()", "target = Path(path).absolute()"),
    Mutant(
        'open(temporary, "xb")',
        'open(temporary, "wb")',
        equivalent="no file has that name, which is random",
    ),
    Mutant(
        'open(temporary, "xb")',
        'open(temporary, "ab")',
        equivalent="no file has that name, which is random",
    ),
    Mutant("            file.flush()\n", ""),
    Mutant("            os.fsync(file.fileno())\n", ""),
    Mutant(
        "            file.flush()\n            os.fsync(file.fileno())\n",
        "            os.fsync(file.fileno())\n            file.flush()\n",
    ),
    Mutant("        if target.exists():\n", "        if False:\n"),
    Mutant("        if target.exists():\n", "        if True:\n"),
    Mutant("target.stat().st_mode & 0o7777", "0o600"),
    Mutant("target.stat().st_mode & 0o7777", "target.stat().st_mode & 0o0777"),
    Mutant("target.stat().st_mode & 0o7777", "target.stat().st_mode & 0o7700"),
    Mutant(
        "        os.replace(temporary, target)\n",
        "        os.rename(temporary, target)\n",
        equivalent="one system call on POSIX",
    ),
    Mutant(
        "        os.replace(temporary, target)\n",
        "        target.write_bytes(temporary.read_bytes())\n        temporary.unlink()\n",
    ),
    Mutant(
        "        os.replace(temporary, target)\n",
        "        target.unlink(missing_ok=True)\n        os.replace(temporary, target)\n",
    ),
    Mutant("    except BaseException:\n", "    except Exception:\n"),
    Mutant("    except BaseException:\n", "    except OSError:\n"),
    Mutant("        temporary.unlink(missing_ok=True)\n", "        pass\n"),
    Mutant("temporary.unlink(missing_ok=True)", "temporary.unlink()"),
    Mutant(
        "        temporary.unlink(missing_ok=True)\n        raise\n",
        "        temporary.unlink(missing_ok=True)\n",
    ),
    Mutant("    _sync_folder(target.parent)\n", ""),
    Mutant("    _sync_folder(target.parent)\n", "    _sync_folder(Path('/'))\n"),
    Mutant('    if os.name != "posix":\n', '    if os.name == "posix":\n'),
    Mutant("        os.fsync(descriptor)\n", "        pass\n"),
    Mutant(
        "        os.fsync(descriptor)\n    finally:\n        os.close(descriptor)\n",
        "        os.fsync(descriptor)\n    finally:\n        pass\n",
    ),
    Mutant("target.exists() and not target.is_file()", "False"),
    Mutant("target.exists() and not target.is_file()", "not target.is_file()"),
    Mutant("target.exists() and not target.is_file()", "target.is_dir()"),
    Mutant('f"{prefix}{secrets.token_hex(8)}.part"', 'f"{prefix}.part"'),
    Mutant('f"{prefix}{secrets.token_hex(8)}.part"', 'f"{prefix}{"n" * 255}.part"'),
    Mutant('folder / f"{prefix}', 'Path("/tmp") / f"{prefix}'),
    # Abandoned files
    Mutant("    _remove_abandoned(target.parent, prefix)\n", ""),
    Mutant("                if _lock(descriptor):\n", "                if True:\n"),
    Mutant(
        "                if _lock(descriptor):\n", "                if not _lock(descriptor):\n"
    ),
    Mutant("hashlib.sha256(os.fsencode(target.name))", "hashlib.sha256(b'')"),
    Mutant("        with suppress(OSError):  # it", "        if True:  # it"),
    Mutant(
        "            finally:\n                os.close(descriptor)\n",
        "            finally:\n                pass\n",
    ),
    Mutant("    except BlockingIOError:\n        return False\n", ""),
    Mutant("    if target.is_symlink():\n", "    if False:\n"),
    Mutant("    except RuntimeError:  # a loop", "    except KeyError:  # a loop"),
    Mutant("fcntl.LOCK_EX | fcntl.LOCK_NB", "fcntl.LOCK_SH | fcntl.LOCK_NB"),
    Mutant(
        "    except PermissionError:\n        return\n", "    except KeyError:\n        return\n"
    ),
]

_GYM = [
    # The vector
    Mutant('envs.metadata.get("autoreset_mode")', 'envs.metadata["autoreset_mode"]'),
    Mutant(
        'envs.metadata.get("autoreset_mode")',
        'envs.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)',
    ),
    Mutant("        if not isinstance(mode, AutoresetMode):\n", "        if False:\n"),
    Mutant("        if not isinstance(mode, AutoresetMode):\n", "        if mode is None:\n"),
    Mutant("        if envs.single_observation_space.shape is None:\n", "        if False:\n"),
    Mutant(
        "        if envs.single_observation_space.shape is None:\n",
        "        if not envs.single_observation_space.shape:\n",
    ),
    Mutant("        self._mode = mode\n", "        self._mode = AutoresetMode.NEXT_STEP\n"),
    Mutant("        self._mode = mode\n", "        self._mode = AutoresetMode.SAME_STEP\n"),
    Mutant("        self._mode = mode\n", "        self._mode = AutoresetMode.DISABLED\n"),
    Mutant(
        "(self._n, *envs.single_observation_space.shape)", "envs.single_observation_space.shape"
    ),
    Mutant(
        "np.zeros(self._n, bool)  # episodes",
        "np.ones(self._n, bool)  # episodes",
        equivalent="the first reset is of all environments",
    ),
    # Resets
    Mutant('        obs = self._checked_obs("reset", obs)\n', "        obs = np.asarray(obs)\n"),
    Mutant('self._checked_obs("reset", obs)', 'self._checked_obs("record", obs)'),
    Mutant(
        "np.ones(self._n, bool) if mask is None else np.asarray(mask)", "np.ones(self._n, bool)"
    ),
    Mutant(
        "np.ones(self._n, bool) if mask is None else np.asarray(mask)",
        "np.zeros(self._n, bool) if mask is None else np.asarray(mask)",
    ),
    Mutant(
        "np.ones(self._n, bool) if mask is None else np.asarray(mask)",
        "np.ones(self._n, bool) if mask is None else np.asarray(mask, bool)",
    ),
    Mutant("begun.shape != (self._n,) or begun.dtype != np.dtype(bool)", "False"),
    Mutant(
        "begun.shape != (self._n,) or begun.dtype != np.dtype(bool)", "begun.shape != (self._n,)"
    ),
    Mutant(
        "begun.shape != (self._n,) or begun.dtype != np.dtype(bool)",
        "begun.dtype != np.dtype(bool)",
    ),
    Mutant("            if not begun.all():\n", "            if False:\n"),
    Mutant("            if not begun.all():\n", "            if not begun.any():\n"),
    Mutant("            self._obs = obs.copy()\n", "            self._obs = obs\n"),
    Mutant("self._obs[begun] = obs[begun]", "self._obs = obs.copy()"),
    Mutant("self._obs[begun] = obs[begun]", "self._obs[~begun] = obs[~begun]"),
    Mutant(
        "self._obs[begun] = obs[begun]",
        "self._obs = np.where(begun.reshape(-1, *[1] * (obs.ndim - 1)), obs, self._obs)",
        equivalent="another array with the same values",
    ),
    Mutant("            self._obs[begun] = obs[begun]\n", "            pass\n"),
    Mutant("        self._finished[begun] = False\n", ""),
    Mutant("        self._finished[begun] = False\n", "        self._finished[...] = False\n"),
    Mutant("        self._finished[begun] = False\n", "        self._finished[~begun] = False\n"),
    Mutant("        self._finished[begun] = False\n", "        self._finished[begun] = True\n"),
    # Order
    Mutant("self._mode is AutoresetMode.DISABLED and self._finished.any()", "False"),
    Mutant("self._mode is AutoresetMode.DISABLED and self._finished.any()", "self._finished.any()"),
    Mutant(
        "self._mode is AutoresetMode.DISABLED and self._finished.any()",
        "self._mode is AutoresetMode.DISABLED and self._finished.all()",
    ),
    Mutant(
        "self._mode is AutoresetMode.DISABLED and self._finished.any()",
        "self._mode is not AutoresetMode.DISABLED and self._finished.any()",
    ),
    Mutant("np.flatnonzero(self._finished).tolist()", "np.flatnonzero(~self._finished).tolist()"),
    # Copies
    Mutant(
        '        after = self._checked_obs("record", obs)\n', "        after = np.asarray(obs)\n"
    ),
    Mutant('self._checked_obs("record", obs)', 'self._checked_obs("reset", obs)'),
    Mutant("np.array(action), np.array(reward)", "np.asarray(action), np.array(reward)"),
    Mutant("np.array(action), np.array(reward)", "np.array(action), np.asarray(reward)"),
    Mutant(
        "np.array(terminated), np.array(truncated)", "np.asarray(terminated), np.array(truncated)"
    ),
    Mutant(
        "np.array(terminated), np.array(truncated)", "np.array(terminated), np.asarray(truncated)"
    ),
    Mutant("        if action.shape[:1] != (self._n,):\n", "        if False:\n"),
    Mutant(
        "        if action.shape[:1] != (self._n,):\n", "        if action.shape != (self._n,):\n"
    ),
    Mutant("        if action.shape[:1] != (self._n,):\n", "        if len(action) < self._n:\n"),
    Mutant('        self._check_numbers("reward", reward, "biuf")\n', ""),
    Mutant('"reward", reward, "biuf"', '"reward", reward, "iuf"'),
    Mutant('"reward", reward, "biuf"', '"reward", reward, "buf"'),
    Mutant('"reward", reward, "biuf"', '"reward", reward, "bif"'),
    Mutant('"reward", reward, "biuf"', '"reward", reward, "biu"'),
    Mutant('"reward", reward, "biuf"', '"reward", reward, "biufc"'),
    Mutant('        self._check_numbers("terminated", terminated, "b")\n', ""),
    Mutant('"terminated", terminated, "b"', '"terminated", terminated, "biu"'),
    Mutant('        self._check_numbers("truncated", truncated, "b")\n', ""),
    Mutant('"truncated", truncated, "b"', '"truncated", truncated, "biu"'),
    Mutant("ended = terminated | truncated", "ended = terminated"),
    Mutant("ended = terminated | truncated", "ended = truncated"),
    Mutant("ended = terminated | truncated", "ended = terminated & truncated"),
    Mutant("ended = terminated | truncated", "ended = terminated ^ truncated"),
    Mutant("        next_obs = after.copy()\n", "        next_obs = after\n"),
    Mutant("        if self._mode is AutoresetMode.SAME_STEP:\n", "        if False:\n"),
    Mutant("        if self._mode is AutoresetMode.SAME_STEP:\n", "        if True:\n"),
    # The step
    Mutant("            obs=self._obs,\n", "            obs=after,\n"),
    Mutant("            obs=self._obs,\n", "            obs=next_obs,\n"),
    Mutant("            next_obs=next_obs,\n", "            next_obs=after,\n"),
    Mutant("            terminated=terminated,\n", "            terminated=ended,\n"),
    Mutant("            terminated=terminated,\n", "            terminated=truncated,\n"),
    Mutant("            truncated=truncated,\n", "            truncated=ended,\n"),
    Mutant("mask=~self._finished", "mask=self._finished"),
    Mutant("mask=~self._finished", "mask=np.ones(self._n, bool)"),
    Mutant("mask=~self._finished", "mask=~ended"),
    Mutant("        self._obs = after.copy()\n", "        self._obs = after\n"),
    Mutant("        self._obs = after.copy()\n", "        self._obs = next_obs\n"),
    Mutant("        self._obs = after.copy()\n", "        self._obs[...] = after\n"),
    Mutant("        self._obs = after.copy()\n", ""),
    Mutant("        if self._mode is not AutoresetMode.SAME_STEP:\n", "        if True:\n"),
    Mutant(
        "        if self._mode is not AutoresetMode.SAME_STEP:\n",
        "        if self._mode is AutoresetMode.DISABLED:\n",
    ),
    Mutant(
        "        if self._mode is not AutoresetMode.SAME_STEP:\n",
        "        if self._mode is AutoresetMode.NEXT_STEP:\n",
    ),
    Mutant("self._finished = ended.copy()", "self._finished |= ended"),
    Mutant("self._finished = ended.copy()", "self._finished = terminated.copy()"),
    Mutant(
        "self._finished = ended.copy()",
        "self._finished = ended",
        equivalent="nobody else has that array",
    ),
    Mutant(
        "self._finished = ended.copy()",
        "self._finished[...] = ended",
        equivalent="the mask that was given is another array",
    ),
    Mutant(
        "return self.obs, self.action, self.reward, self.next_obs, self.terminated",
        "return self.obs, self.action, self.reward, self.next_obs, self.truncated",
    ),
    Mutant(
        "return self.obs, self.action, self.reward, self.next_obs, self.terminated",
        "return self.next_obs, self.action, self.reward, self.obs, self.terminated",
    ),
    # Checks
    Mutant("        if array.shape != self._shape:\n", "        if False:\n"),
    Mutant("        if array.shape != self._shape:\n", "        if len(array) != self._n:\n"),
    Mutant(
        "        if array.shape != self._shape:\n",
        "        if array.shape[1:] != self._shape[1:]:\n",
    ),
    Mutant("        if array.shape != (self._n,):\n", "        if False:\n"),
    Mutant("        if array.shape != (self._n,):\n", "        if len(array) != self._n:\n"),
    Mutant("        if array.shape != (self._n,):\n", "        if array.ndim != 1:\n"),
    Mutant("        if array.dtype.kind not in kinds:\n", "        if False:\n"),
    Mutant(
        "        if array.dtype.kind not in kinds:\n", "        if array.dtype.kind in kinds:\n"
    ),
    Mutant('wanted = "bool" if kinds == "b" else "numbers"', 'wanted = "numbers"'),
    # Final observations
    Mutant('final = info.get("final_obs")', 'final = info["final_obs"]'),
    Mutant('final = info.get("final_obs")', 'final = info.get("final_observation")'),
    Mutant("for env in np.flatnonzero(ended):", "for env in np.flatnonzero(ended)[:1]:"),
    Mutant("for env in np.flatnonzero(ended):", "for env in range(len(ended)):"),
    Mutant("if np.shape(final[env]) != self._shape[1:]:", "if False:"),
    Mutant("if np.shape(final[env]) != self._shape[1:]:", "if len(final[env]) != self._shape[1]:"),
    Mutant(
        "if np.shape(final[env]) != self._shape[1:]:",
        "if np.size(final[env]) != np.prod(self._shape[1:]):",
    ),
    Mutant("next_obs[env] = final[env]", "next_obs[env] = final[0]"),
    Mutant("            next_obs[env] = final[env]", "            pass"),
    Mutant(
        'getattr(envs.unwrapped, "autoreset_mode", envs.metadata.get("autoreset_mode"))',
        'envs.metadata.get("autoreset_mode")',
    ),
    Mutant(
        'getattr(envs.unwrapped, "autoreset_mode", envs.metadata.get("autoreset_mode"))',
        'getattr(envs.unwrapped, "autoreset_mode", None)',
    ),
    Mutant(
        'getattr(envs.unwrapped, "autoreset_mode", envs.metadata.get("autoreset_mode"))',
        'getattr(envs, "autoreset_mode", envs.metadata.get("autoreset_mode"))',
    ),
    Mutant("            if obs.dtype != self._obs.dtype:\n", "            if False:\n"),
    Mutant('info.get("final_obs") if isinstance(info, Mapping) else None', 'info.get("final_obs")'),
    Mutant(
        "final is None or len(final) != self._n or final[env] is None",
        "final is None or final[env] is None",
    ),
    Mutant(
        "final is None or len(final) != self._n or final[env] is None",
        "final is None or len(final) != self._n",
    ),
    Mutant(
        "final is None or len(final) != self._n or final[env] is None",
        "len(final) != self._n or final[env] is None",
    ),
    Mutant(
        "final is None or len(final) != self._n or final[env] is None",
        "final is None or len(final) < self._n or final[env] is None",
    ),
    Mutant(
        '        if self._obs is None:\n            raise OrderError(\n                "record',
        '        if False:\n            raise OrderError(\n                "record',
    ),
    Mutant("        if isinstance(obs, tuple):\n", "        if False:\n"),
]

NSTEP_PYTHON = {
    "cpreplay/nstep.py": _NSTEP,
    "cpreplay/nstep_steps.py": _STEPS,
    "cpreplay/nstep_state.py": _STATE,
    "cpreplay/nstep_transitions.py": _TRANSITIONS,
    "cpreplay/host_nstep.py": _HOST,
    "cpreplay/device_nstep.py": _DEVICE,
    "cpreplay/block_aliases.py": _ALIASES,
    "cpreplay/demos/record.py": _RECORD,
    "cpreplay/demos/file.py": _FILE,
    "cpreplay/demos/filter.py": _FILTER,
    "cpreplay/demos/load.py": _LOAD,
    "cpreplay/atomic_file.py": _ATOMIC,
    "cpreplay/gym/recorder.py": _GYM,
}
