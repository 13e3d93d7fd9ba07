"""Mistakes in n-step aggregation, demonstrations and recording. `python` has them in its table."""

from tests.mutants.mutant import Mutant

_BUFFER_TESTS = ("nstep", "nstep_steps", "demo_loading", "capture_nstep", "gym")
_DEMO_TESTS = ("demos", "demo_loading", "public_api")

NSTEP_PYTHON_TESTS = {
    "cpreplay/nstep.py": (*_BUFFER_TESTS, "public_api"),
    "cpreplay/nstep_steps.py": ("nstep_steps", "demo_loading", "capture_nstep", "public_api"),
    "cpreplay/nstep_state.py": _BUFFER_TESTS,
    "cpreplay/nstep_transitions.py": _BUFFER_TESTS,
    "cpreplay/host_nstep.py": _BUFFER_TESTS,
    "cpreplay/device_nstep.py": ("nstep", "capture_nstep", "nstep_steps", "demo_loading"),
    "cpreplay/block_aliases.py": ("nstep_steps", "public_api"),
    "cpreplay/demos/record.py": _DEMO_TESTS,
    "cpreplay/demos/file.py": _DEMO_TESTS,
    "cpreplay/demos/filter.py": _DEMO_TESTS,
    "cpreplay/demos/load.py": ("demo_loading", "demos"),
    "cpreplay/atomic_file.py": ("demos",),
    "cpreplay/gym.py": ("gym",),
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
        "obs_shape,\n            action_shape,\n            obs_dtype=obs_dtype,\n            action_dtype=action_dtype,",
        "action_shape,\n            obs_shape,\n            obs_dtype=obs_dtype,\n            action_dtype=action_dtype,",
    ),
    Mutant(
        "            obs_dtype=obs_dtype,\n            action_dtype=action_dtype,\n            obs_store",
        "            obs_dtype=action_dtype,\n            action_dtype=obs_dtype,\n            obs_store",
    ),
    Mutant(
        "            action_dtype=action_dtype,\n            obs_store_dtype=obs_store_dtype,\n",
        "            action_dtype=action_dtype,\n            obs_store_dtype=None,\n",
    ),
    Mutant(
        "obs_store_dtype=obs_store_dtype,\n            extra_columns=extra_columns,\n        )\n        self._extra",
        "obs_store_dtype=obs_store_dtype,\n            extra_columns=None,\n        )\n        self._extra",
    ),
    Mutant("self._columns[len(TRANSITION) :]]", "self._columns[len(TRANSITION) + 1 :]]"),
    Mutant("self._columns[len(TRANSITION) :]]", "self._columns]"),
    Mutant('("discount", "truncated", "valid")', '("truncated", "valid")'),
    Mutant('("discount", "truncated", "valid")', '("discount", "valid")'),
    Mutant('("discount", "truncated", "valid")', '("discount", "truncated")'),
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
    Mutant(
        "self._ops.ingest(values, truncated, mask, single)",
        "self._ops.ingest(values, terminated, mask, single)",
    ),
    Mutant(
        "self._ops.ingest(values, truncated, mask, single)",
        "self._ops.ingest(values, truncated, None, single)",
    ),
    Mutant("self._ops.reset(mask)", "self._ops.reset(None)"),
    Mutant("self._ops.reset(mask)", "pass"),
    Mutant("        return self._n\n", "        return self._n_envs\n"),
    Mutant("        return self._n_envs\n", "        return self._n\n"),
    Mutant("        return self._gamma\n", "        return 0.99\n"),
    Mutant("self._ops.restore(state)", "pass"),
    # The host's
    Mutant(
        "            n_envs=n_envs,\n            obs_dtype=obs_dtype,\n            obs_store_dtype=obs_store_dtype,\n            action_dtype=action_dtype,\n            extra_columns=extra_columns,\n        )\n        self._ops",
        "            n_envs=1,\n            obs_dtype=obs_dtype,\n            obs_store_dtype=obs_store_dtype,\n            action_dtype=action_dtype,\n            extra_columns=extra_columns,\n        )\n        self._ops",
    ),
    Mutant(
        "            obs_store_dtype=obs_store_dtype,\n            action_dtype=action_dtype,\n            extra_columns=extra_columns,\n        )\n        self._ops",
        "            obs_store_dtype=None,\n            action_dtype=action_dtype,\n            extra_columns=extra_columns,\n        )\n        self._ops",
    ),
    Mutant(
        "            action_dtype=action_dtype,\n            extra_columns=extra_columns,\n        )\n        self._ops",
        "            action_dtype=obs_dtype,\n            extra_columns=extra_columns,\n        )\n        self._ops",
    ),
    Mutant(
        "            extra_columns=extra_columns,\n        )\n        self._ops",
        "            extra_columns=None,\n        )\n        self._ops",
    ),
    Mutant(
        "HostNStep(self._columns, self._n, self._n_envs, self._gamma)",
        "HostNStep(self._columns, self._n_envs, self._n, self._gamma)",
    ),
    Mutant(
        "HostNStep(self._columns, self._n, self._n_envs, self._gamma)",
        "HostNStep(self._columns, self._n, self._n_envs, 0.99)",
    ),
    # The device's
    Mutant(
        "            obs_store_dtype=obs_store_dtype,\n            action_dtype=action_dtype,\n            extra_columns=extra_columns,\n        )\n        cupy",
        "            obs_store_dtype=None,\n            action_dtype=action_dtype,\n            extra_columns=extra_columns,\n        )\n        cupy",
    ),
    Mutant(
        "            extra_columns=extra_columns,\n        )\n        cupy",
        "            extra_columns=None,\n        )\n        cupy",
    ),
    Mutant("cupy.cuda.Device(device_number(cupy, device))", "cupy.cuda.Device(0)"),
    Mutant("cupy.cuda.Device(device_number(cupy, device))", "cupy.cuda.Device(device)"),
    Mutant(
        "DeviceNStep(cupy, self._columns, self._n, self._n_envs, self._gamma)",
        "DeviceNStep(cupy, self._columns, self._n_envs, self._n, self._gamma)",
    ),
    Mutant(
        "DeviceNStep(cupy, self._columns, self._n, self._n_envs, self._gamma)",
        "DeviceNStep(cupy, self._columns, self._n, self._n_envs, 0.99)",
    ),
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
    Mutant(
        "self._steps.append(obs, action, reward, next_obs, terminated, truncated, **extra)",
        "self._steps.append(obs, action, reward, next_obs, terminated, False, **extra)",
    ),
    Mutant(
        "self._steps.append(obs, action, reward, next_obs, terminated, truncated, **extra)",
        "self._steps.append(obs, action, reward, next_obs, truncated, terminated, **extra)",
    ),
    Mutant(
        "self._steps.append(obs, action, reward, next_obs, terminated, truncated, **extra)",
        "self._steps.append(next_obs, action, reward, obs, terminated, truncated, **extra)",
    ),
    Mutant(
        "self._steps.append(obs, action, reward, next_obs, terminated, truncated, **extra)",
        "self._steps.append(obs, action, reward, next_obs, terminated, truncated)",
    ),
    Mutant(
        "truncated, **extra)\n        store_windows(self._block, windows)", "truncated, **extra)"
    ),
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
    Mutant("        )\n        store_windows(self._block, windows)\n", "        )\n"),
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
    Mutant("mask = None if mask is None else np.reshape(mask, 1)", "pass"),
    Mutant("mask = None if mask is None else np.reshape(mask, 1)", "mask = None"),
    Mutant("        check_envs(rows, self._n_envs)\n", ""),
    Mutant(
        "stepped = None if mask is None else self._inputs.mask(mask, rows)[0]", "stepped = None"
    ),
    Mutant(
        "stepped = None if mask is None else self._inputs.mask(mask, rows)[0]",
        "stepped = None if mask is None else np.asarray(mask)",
    ),
    Mutant("        for column in self._quantized:\n", "        for column in ():\n"),
    Mutant(
        "values_of_steps = step[column.name] if stepped is None else step[column.name][stepped]",
        "values_of_steps = step[column.name]",
    ),
    Mutant(
        "values_of_steps = step[column.name] if stepped is None else step[column.name][stepped]",
        "values_of_steps = step[column.name][stepped]",
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
    Mutant("shortest = int(length.min(initial=0))", "shortest = int(length.max(initial=0))"),
    Mutant(
        "shortest = int(length.min(initial=0))", "shortest = 0", equivalent="it saves comparisons"
    ),
    Mutant(
        "shortest = int(length.min(initial=0))", "shortest = int(length.min(initial=10**9)) + 1"
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
    Mutant("True if k < shortest else length > k", "True"),
    Mutant("True if k < shortest else length > k", "length > k", equivalent="it saves comparisons"),
    Mutant("True if k < shortest else length > k", "True if k <= shortest else length > k"),
    Mutant("True if k < shortest else length > k", "True if k < shortest else length >= k"),
    Mutant("True if k < shortest else length > k", "True if k < shortest else length > k + 1"),
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
]
