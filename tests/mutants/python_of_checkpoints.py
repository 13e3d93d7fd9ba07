"""Mistakes in checkpoints: the state, the rows, the file. `python` has them in its table."""

from tests.mutants.mutant import Mutant

_STATE_TESTS = ("words", "resume", "replay_golden", "salvage", "replay_state")
_FILE_TESTS = ("container", "hostile_checkpoints", "replay_golden")

CHECKPOINT_PYTHON_TESTS = {
    "cpreplay/words.py": ("words", "replay", "recent_and_demos", "golden", "replay_state"),
    "cpreplay/replay_state.py": (*_STATE_TESTS, "snapshots"),
    "cpreplay/host_snapshot.py": ("snapshots", "resume"),
    "cpreplay/device_snapshot.py": ("snapshots", "resume"),
    "cpreplay/replay_checkpoints.py": (*_STATE_TESTS, "snapshots"),
    "cpreplay/replay_salvage.py": ("salvage",),
    "cpreplay/checkpoint/background.py": ("background_saves",),
    "cpreplay/checkpoint/damage.py": ("container", "inspect"),
    "cpreplay/checkpoint/replay_file.py": _STATE_TESTS,
    "cpreplay/checkpoint/container.py": _FILE_TESTS,
    "cpreplay/checkpoint/encoding.py": _FILE_TESTS,
    "cpreplay/checkpoint/members.py": _FILE_TESTS,
}

_WORDS = [
    # Moved from host_ops
    Mutant("if rng != NUMBERED:\n        ", "if False:\n        "),
    Mutant(
        "functools.partial(philox_words, splitmix64(seed))", "functools.partial(philox_words, seed)"
    ),
    Mutant(
        "functools.partial(philox_words, splitmix64(seed))",
        "lambda draw, lanes, purpose: philox_words(splitmix64(seed), draw, lanes)",
    ),
    Mutant(
        "np.random.Generator(np.random.PCG64(seed))",
        "np.random.Generator(np.random.PCG64DXSM(seed))",
    ),
    Mutant("    if not isinstance(rng, np.random.Generator):\n", "    if False:\n"),
    Mutant("if type(self._bits) in _RAW_64_BIT:", "if True:"),
    Mutant(
        "if type(self._bits) in _RAW_64_BIT:",
        "if False:",
        equivalent="integers of all 64 bits are these generators' raw words, more slowly",
    ),
    Mutant("rng.integers(0, 2**64, lanes, np.uint64)", "rng.integers(0, 2**32, lanes, np.uint64)"),
    Mutant("rng.integers(0, 2**64, lanes, np.uint64)", "rng.integers(0, 2**63, lanes, np.uint64)"),
    # Numbered draws
    Mutant("        self._seed = seed\n        self.draw: Draw", "        self.draw: Draw"),
    Mutant(
        "        return lambda: self._take(new)\n",
        "        self._take(new)\n        return lambda: None\n",
    ),
    Mutant("        return lambda: self._take(new)\n", "        return lambda: None\n"),
    Mutant(
        "    if seed is not None:\n        return seed\n", "    if seed:\n        return seed\n"
    ),
    Mutant("    if seed is not None:\n        return seed\n", ""),
    Mutant('    if state["name"] != NUMBERED:\n', "    if False:\n"),
    Mutant("    if not is_seed(saved):\n", "    if False:\n"),
    Mutant("    if not is_seed(saved):\n", "    if saved is None:\n"),
    Mutant('return {"name": NUMBERED, "seed": seed}', 'return {"name": "Philox", "seed": seed}'),
    # Generators
    Mutant("            fresh = kind(seed).state\n", "            fresh = self._bits.state\n"),
    Mutant(
        '            return lambda: setattr(self._bits, "state", fresh)\n',
        "            self._bits.state = fresh\n            return lambda: None\n",
    ),
    Mutant(
        "        if seed is not None:\n            fresh", "        if seed:\n            fresh"
    ),
    Mutant('        if state["name"] != kind.__name__:\n', "        if False:\n"),
    Mutant("            _refuse_out_of_bounds(after)\n", ""),
    Mutant("            self._bits.state = after\n", ""),
    Mutant("        finally:\n            self._bits.state = before\n", ""),
    Mutant(
        '        return lambda: setattr(self._bits, "state", after)\n',
        '        return lambda: setattr(self._bits, "state", before)\n',
    ),
    Mutant(
        "KeyError, TypeError, ValueError, OverflowError, IndexError",
        "KeyError, TypeError, ValueError",
    ),
    Mutant(
        "KeyError, TypeError, ValueError, OverflowError, IndexError",
        "TypeError, ValueError, OverflowError",
    ),
    Mutant('    if name == "PCG64" or (name', "    if (name"),
    Mutant(" or (name not in _NUMPYS and not needed):", ":"),
    Mutant("(name not in _NUMPYS and not needed)", "name not in _NUMPYS"),
    Mutant(
        '    if name == NUMBERED:\n        return NUMBERED\n    if name == "PCG64"',
        '    if name == "PCG64"',
    ),
    Mutant("    if name not in _NUMPYS:\n", "    if False:\n"),
    Mutant("(*_RAW_64_BIT, np.random.MT19937)}", "_RAW_64_BIT}"),
    Mutant("set(value) != set(model)", "False"),
    Mutant("set(value) != set(model)", "not set(value) >= set(model)"),
    Mutant("array.shape != model.shape or ", ""),
    Mutant(" or array.tolist() != value:", ":"),
    Mutant("            _refuse_out_of_bounds(value)\n", "            pass\n"),
    Mutant('"pos": 624, ', '"pos": 625, '),
    Mutant('"pos": 624, ', '"pos": 623, '),
    Mutant('"buffer_pos": 4, ', '"buffer_pos": 3, '),
    Mutant('"buffer_pos": 4, ', '"buffer_pos": 5, '),
    Mutant('"has_uint32": 1, ', ""),
    Mutant(
        ', "uinteger": 2**32 - 1',
        ', "uinteger": 2**32',
        equivalent="NumPy itself refuses more than 32 bits there",
    ),
    Mutant("not 0 <= value <= _BOUNDS[name]", "not value <= _BOUNDS[name]"),
    Mutant('elif name == "inc" and not value % 2:', "elif False:"),
    Mutant(
        "    if type(value) is not type(model) and not (value is None or model is None):\n",
        "    if False:\n",
    ),
]

_REPLAY_STATE = [
    Mutant('_OF_THE_OBJECT = ("capacity", "key", "run")', '_OF_THE_OBJECT = ("capacity", "key")'),
    Mutant('_OF_THE_OBJECT = ("capacity", "key", "run")', '_OF_THE_OBJECT = ("capacity", "run")'),
    Mutant('"dtype": column.dtype.name,', '"dtype": column.stored.name,'),
    Mutant('"stored": column.stored.name,', '"stored": column.dtype.name,'),
    Mutant(" or type(saved.get(name)) is not type(own[name])", ""),
    Mutant(
        'for name in ("capacity", "prioritized")\n        if',
        'for name in ("capacity",)\n        if',
    ),
    Mutant(
        '    differences += [f"column {name} is there alone" for name in theirs if name '
        "not in mine]\n",
        "",
    ),
    Mutant(
        '    differences += [f"column {name} is here alone" for name in mine if name not '
        "in theirs]\n",
        "",
    ),
    Mutant("if name in theirs and theirs[name] != mine[name]:", "if False:"),
    Mutant("    if not differences and list(theirs) != list(mine):\n", "    if False:\n"),
    Mutant(
        "if not (is_count(capacity) and capacity <= MAX_CAPACITY):", "if not is_count(capacity):"
    ),
    Mutant(
        "if not (is_count(capacity) and capacity <= MAX_CAPACITY):",
        "if not capacity <= MAX_CAPACITY:",
    ),
    Mutant('        if not isinstance(about["prioritized"], bool):\n', "        if False:\n"),
    Mutant(
        "    except (KeyError, TypeError, ConfigurationError) as error:\n",
        "    except (KeyError, TypeError) as error:\n",
    ),
    Mutant("    if list(forms) != list(possible):\n", "    if False:\n"),
    Mutant("        if form != possible[name]:\n", "        if False:\n"),
    Mutant(
        "    _expect(set(control) == set(SAVED_FIELDS)",
        "    _expect(set(control) >= set(SAVED_FIELDS)",
    ),
    Mutant("demo_count <= total and demo_count < capacity", "demo_count < capacity"),
    Mutant("demo_count <= total and demo_count < capacity", "demo_count <= total"),
    Mutant(
        "demo_count <= total and demo_count < capacity",
        "demo_count < total and demo_count < capacity",
    ),
    Mutant('fields["ere_enabled"] in (0, 1)', "True"),
    Mutant('0.0 < fields["eta"] <= 1.0', '0.0 <= fields["eta"] <= 1.0'),
    Mutant('0.0 < fields["eta"] <= 1.0', '0.0 < fields["eta"] < 1.0'),
    Mutant('0.0 <= fields["eta_power"] <= 1.0', 'fields["eta_power"] <= 1.0'),
    Mutant('fields["k"] < max(1, fields["k_max"])', 'fields["k"] <= fields["k_max"]'),
    Mutant('fields["k"] < max(1, fields["k_max"])', 'fields["k"] < fields["k_max"]'),
    Mutant('not fields["ere_enabled"] or (fields["c_min"] and fields["k_max"])', "True"),
    Mutant("    _check_exponents(fields)\n    _expect(\n        1.0", "    _expect(\n        1.0"),
    Mutant('1.0 <= fields["max_priority"] < math.inf', '0.0 <= fields["max_priority"] < math.inf'),
    Mutant('1.0 <= fields["max_priority"] < math.inf', '1.0 <= fields["max_priority"]'),
    Mutant("prioritized + ere + bool(demo_count) <= 1", "ere + bool(demo_count) <= 1"),
    Mutant("prioritized + ere + bool(demo_count) <= 1", "prioritized + ere <= 1"),
    Mutant("largest in (None, room)", "True"),
    Mutant("largest in (None, room)", "largest == room"),
    Mutant(" and not isinstance(largest, bool)", ""),
    Mutant("room = capacity - demo_count if", "room = capacity if"),
    Mutant("seed is None or is_seed(seed)", "True"),
    Mutant('not numbered or generator.get("seed") == seed', "True"),
    Mutant("            largest_batch=largest,\n", "            largest_batch=None,\n"),
    Mutant(
        "_checked_leaves(leaves, size) if prioritized else None",
        "_checked_leaves(leaves, capacity) if prioritized else None",
    ),
    Mutant("array.dtype == np.float32 and array.shape == (size,)", "array.shape == (size,)"),
    Mutant("array.dtype == np.float32 and array.shape == (size,)", "array.dtype == np.float32"),
    Mutant("part >= SMALLEST", "part >= 0"),
    Mutant("part >= SMALLEST", "part > SMALLEST"),
    Mutant(" & (part < np.inf)", ""),
    Mutant("range(0, size, 1 << 20)", "range(0, 1, 1 << 20)", open="more than a million leaves"),
    Mutant("0.0 <= epsilon < math.inf", "0.0 <= epsilon"),
    Mutant('_expect(0.0 <= fields[name] <= 1.0, f"{name}', '_expect(0.0 <= fields[name], f"{name}'),
    # Spans
    Mutant("bisect.bisect_right(self._firsts, first)", "bisect.bisect_left(self._firsts, first)"),
    Mutant("self._ends[at - 1] <= first", "self._ends[at - 1] < first"),
    Mutant("self._ends[at - 1] <= first", "self._firsts[at - 1] < first"),
    Mutant("end <= self._firsts[at]", "end < self._firsts[at]"),
    Mutant("end <= self._firsts[at]", "first < self._firsts[at]"),
    Mutant("if not rows or end > size or not free:", "if end > size or not free:"),
    Mutant("if not rows or end > size or not free:", "if not rows or not free:"),
    Mutant("if not rows or end > size or not free:", "if not rows or end >= size or not free:"),
    Mutant("if not rows or end > size or not free:", "if not rows or end > size:"),
    Mutant("        self._ends.insert(at, end)\n", "        self._ends.append(end)\n"),
    Mutant("if total >= capacity else demo_count", "if total > capacity else demo_count"),
    Mutant("if total >= capacity else demo_count", "if total >= 0 else demo_count"),
    Mutant("for cut in (demo_count, head)", "for cut in (head,)"),
    Mutant("for cut in (demo_count, head)", "for cut in (demo_count,)"),
    Mutant("if first < cut < end}", "if first <= cut <= end}"),
    Mutant("0 if low < demo_count else", "0 if low <= demo_count else"),
    Mutant("1 if low >= head else 2", "1 if low > head else 2"),
    Mutant("1 if low >= head else 2", "2 if low >= head else 1"),
    Mutant(", capacity - 1)\n        head", ", capacity)\n        head"),
    Mutant(".append((low, rows, place))", ".append((first, rows, place))"),
]

_HOST_SNAPSHOT = [
    Mutant("chunks = -(-size // self._rows)", "chunks = size // self._rows"),
    Mutant("pinned = demo_count // self._rows ", "pinned = -(-demo_count // self._rows) "),
    Mutant(
        "first = min(head // self._rows, chunks)",
        "first = head // self._rows",
        equivalent="the head is at most one behind the rows held",
    ),
    Mutant("first = min(head // self._rows, chunks)", "first = 0"),
    Mutant(
        "[*range(first, chunks), *range(pinned, first), *range(min(pinned, first))]",
        "[*range(first, chunks), *range(pinned, first), *range(pinned)]",
    ),
    Mutant(
        "[*range(first, chunks), *range(pinned, first), *range(min(pinned, first))]",
        "[*range(first, chunks), *range(pinned, first)]",
    ),
    Mutant(
        "end = min(first + count, self._size)",
        "end = first + count",
        equivalent="chunks that are not there are not unread either",
    ),
    Mutant("-(-end // self._rows)", "end // self._rows"),
    Mutant("range(first // self._rows, ", "range(-(-first // self._rows), "),
    Mutant("chunk not in self._unread or chunk in self._aside", "chunk in self._aside"),
    Mutant("chunk not in self._unread or chunk in self._aside", "chunk not in self._unread"),
    Mutant(
        "                if not self._spares:\n                    return False\n",
        "                if not self._spares:\n                    continue\n",
    ),
    Mutant(
        "                if not self._spares:\n                    return False\n",
        "                if not self._spares:\n                    return True\n",
    ),
    Mutant(
        "                    kept[: part.stop - part.start] = array[part]\n",
        "                    kept[part] = array[part]\n",
    ),
    Mutant(
        "                    kept[: part.stop - part.start] = array[part]\n",
        "                    kept[:] = array[: len(kept)]\n",
    ),
    Mutant("                self._aside[chunk] = spare\n", ""),
    Mutant("        self._make_spares()  # now", "        #"),
    Mutant("            self._unread.clear()\n", ""),
    Mutant(
        "            self._aside.clear()\n",
        "            pass\n",
        equivalent="whoever closes a snapshot drops it too",
    ),
    Mutant(
        "            self._spares.clear()\n            self._changed.notify_all()\n",
        "            self._spares.clear()\n",
    ),
    Mutant("range(min(_SPARES, len(self._order)))", "range(min(1, len(self._order)))"),
    Mutant(
        "range(min(_SPARES, len(self._order)))",
        "range(_SPARES)",
        equivalent="memory for chunks that are not there",
    ),
    Mutant(
        "self._spares.append(spare)\n                self._changed.notify_all()\n",
        "self._spares.append(spare)\n",
    ),
    Mutant("min(first + self._rows, self._size)", "first + self._rows"),
    Mutant(
        "zip(self._layout.columns, self._layout.places, strict=True):\n"
        "            stored = StoredColumn(column, place, arrays[place.array])",
        "zip(self._layout.columns, self._layout.places, strict=True):\n"
        "            stored = StoredColumn(column, place, arrays[0])",
    ),
    Mutant("out[column.name][:count]", "out[column.name]"),
]

_DEVICE_SNAPSHOT = [
    Mutant("held = [array[:size] for array in arrays]", "held = [array for array in arrays]"),
    Mutant(
        "        if apart:\n            _refuse_copy", "        if False:\n            _refuse_copy"
    ),
    Mutant("            held = [array.copy() for array in held]\n", ""),
    Mutant("            card.cupy.cuda.get_current_stream().synchronize()  #", "            #"),
    Mutant("            _refuse_copy(card, sum(int(array.nbytes) for array in held))\n", ""),
    Mutant(
        "sum(int(array.nbytes) for array in held)", "sum(int(array.nbytes) for array in arrays)"
    ),
    Mutant("return self._apart or not self._arrays", "return True"),
    Mutant("return self._apart or not self._arrays", "return self._apart"),
    Mutant("return self._apart or not self._arrays", "return not self._arrays"),
    Mutant(
        "cupy.cuda.Stream(non_blocking=True) if self._apart else None",
        "None",
        equivalent="slower: it waits for whatever runs on the current stream",
    ),
    Mutant(
        "cupy.cuda.Stream(non_blocking=True) if self._apart else None",
        "cupy.cuda.Stream(non_blocking=True)",
    ),
    Mutant(
        "slice(first, min(first + self._rows, self._size))",
        "slice(first, first + self._rows)",
        equivalent="the arrays have just so many rows",
    ),
    Mutant("range(0, self._size, self._rows)", "range(0, self._size - self._rows + 1, self._rows)"),
    Mutant(
        "            self._arrays = []\n            self._changed.notify_all()\n",
        "            self._arrays = []\n",
    ),
    Mutant(
        "            self._arrays = []\n            self._changed.notify_all()\n",
        "            self._changed.notify_all()\n",
    ),
    Mutant(
        "np.empty((len(array), *column.shape), column.stored)",
        "np.empty((len(array), *column.shape), column.dtype)",
    ),
    Mutant(
        "array = arrays[place.array]\n            columns", "array = arrays[0]\n            columns"
    ),
    Mutant("_as_records(arrays[place.array])).write(0", "_as_records(arrays[0])).write(0"),
    Mutant(" + int(cupy.get_default_memory_pool().free_bytes())", ""),
    Mutant("    if nbytes > free:\n", "    if nbytes < free:\n"),
]

_REPLAY_CHECKPOINTS = [
    # Saving
    Mutant(
        "self._write(path, *self._begin_save(None, apart=False))",
        "self._write(path, *self._begin_save(None, apart=True))",
    ),
    Mutant(
        "functools.partial(self._begin_save, None, apart=True)",
        "functools.partial(self._begin_save, None, apart=False)",
    ),
    Mutant(
        "rows[name][first : first + len(values)] = values", "rows[name][: len(values)] = values"
    ),
    Mutant("rows[name][first : first + len(values)] = values", "rows[name] = values"),
    Mutant(
        "        finally:\n            self._end_save(snapshot)\n        return {",
        "        finally:\n            snapshot.close()\n        return {",
    ),
    Mutant(
        "while not all([snapshot.set_aside(self._ops.pieces(rows)) for snapshot in "
        "self._snapshots]):\n"
        "            self._changed.wait()",
        "all([snapshot.set_aside(self._ops.pieces(rows)) for snapshot in self._snapshots])",
    ),
    Mutant(
        "while not all([snapshot.set_aside(self._ops.pieces(rows)) for snapshot in "
        "self._snapshots]):",
        "while not any([snapshot.set_aside(self._ops.pieces(rows)) for snapshot in "
        "self._snapshots]):",
    ),
    Mutant("self._ops.pieces(rows)", "self._ops.pieces(1)"),
    Mutant('size = ring_size(int(control["total"]), self._capacity)', "size = self._capacity"),
    Mutant(
        "priorities.leaves(size) if priorities else None",
        "priorities.leaves(self._capacity) if priorities else None",
    ),
    Mutant("                pending=pending,\n", ""),
    Mutant(
        "            self._snapshots.append(snapshot)\n        return moment",
        "        self._snapshots.append(snapshot)\n        return moment",
    ),
    Mutant(
        "            self._snapshots.append(snapshot)\n        return moment",
        "        return moment",
    ),
    Mutant("self._saves.submit(self._ops.here(begin))", "self._saves.submit(begin)"),
    Mutant(
        "            self._snapshots.remove(snapshot)\n        snapshot.close()\n",
        "            self._snapshots.remove(snapshot)\n",
    ),
    Mutant(
        "            self._snapshots.remove(snapshot)\n        snapshot.close()\n",
        "            self._snapshots.clear()\n        snapshot.close()\n",
    ),
    Mutant('{"rows": rows}, moment', '{"rows": self._capacity}, moment'),
    Mutant(
        "        finally:\n            self._end_save(snapshot)\n        return Path(path)",
        "        except OSError:\n"
        "            self._end_save(snapshot)\n"
        "            raise\n"
        "        self._end_save(snapshot)\n"
        "        return Path(path)",
    ),
    # Taking up
    Mutant('np.asarray(values, order="C") for name', "np.asarray(values) for name"),
    Mutant("        refuse_misfit(moment.about, self._about())\n", ""),
    Mutant("[(0, columns)] if rows else []", "[(0, columns)]"),
    Mutant("        if rows != checked.size:\n", "        if False:\n"),
    Mutant(
        "            refuse_pending(path, moment, drop_pending)\n            return lambda: None\n",
        "            return lambda: None\n",
    ),
    Mutant("            file.verify()\n", ""),
    Mutant("            refuse_misfit(file.header, self._about())\n", ""),
    Mutant("            take_pending()\n", ""),
    Mutant(
        "            self._take_up(checked, file.chunks(), seed)\n            take_pending()\n",
        "            take_pending()\n            self._take_up(checked, file.chunks(), seed)\n",
    ),
    Mutant(
        "seed = None if seed is None else checked_seed(seed)",
        "seed = checked_seed(seed) if seed else None",
    ),
    Mutant("seed = None if seed is None else checked_seed(seed)", "pass"),
    Mutant(
        "            if self._snapshots:\n                raise OrderError",
        "            if False:\n                raise OrderError",
    ),
    Mutant("before = ring_size(self._ops.total(), self._capacity)", "before = checked.size"),
    Mutant(
        "self._ops.check_generator(checked.generator, seed)",
        "self._ops.check_generator(checked.generator, None)",
    ),
    Mutant("touched = max(before, checked.size)", "touched = before"),
    Mutant("touched = max(before, checked.size)", "touched = checked.size"),
    Mutant(
        "                self._forget(touched)\n                self._put_chunks",
        "                self._put_chunks",
    ),
    Mutant("                self._ops.clear_rows(checked.size, before)\n", ""),
    Mutant(
        "                self._ops.clear_rows(checked.size, before)\n",
        "                self._ops.clear_rows(0, before)\n",
    ),
    Mutant("                take_generator()\n", ""),
    Mutant("                if before:\n", "                if True:\n"),
    Mutant("                if before:\n", "                if False:\n"),
    Mutant("                self._ops.clear_rows(0, touched)\n", ""),
    Mutant(
        "                self._ops.clear_rows(0, touched)\n                self._forget(touched)\n",
        "                self._ops.clear_rows(0, touched)\n",
    ),
    Mutant(
        "            except BaseException as error:\n                # What",
        "            except OSError as error:\n                # What",
    ),
    Mutant("self._seed = checked.seed if seed is None else seed", "self._seed = checked.seed"),
    Mutant(
        "self._seed = checked.seed if seed is None else seed",
        "self._seed = self._seed if seed is None else seed",
    ),
    Mutant(
        "self._seed = checked.seed if seed is None else seed", "self._seed = seed or checked.seed"
    ),
    Mutant('            control["key"] = splitmix64(self._seed)\n', "            pass\n"),
    Mutant('control["key"] = splitmix64(self._seed)', 'control["key"] = self._seed'),
    Mutant(
        "            self._set_leaves(checked.leaves)\n        self._set_control(control)\n",
        "            self._set_leaves(checked.leaves)\n",
    ),
    Mutant("        self._policy = attrs.evolve(checked.policy)\n", ""),
    Mutant('        self._known.restore(int(control["total"]))\n', ""),
    Mutant("np.broadcast_to(np.float32(0.0), rows)", "np.broadcast_to(np.float32(0.0), 1)"),
    Mutant("        self._known.restore(0)\n", ""),
    Mutant("range(0, len(leaves), _PART)", "range(0, 1, _PART)", open="more than a million leaves"),
    Mutant("        run = secrets.randbits(64)\n", "        run = 0\n"),
    Mutant("        self._ops.priorities.take_up(run)\n", ""),
    # Salvage
    # Rows
    Mutant(
        "            spans.add(first, self._check_columns(columns), size)\n",
        "            spans.rows += self._check_columns(columns)\n",
    ),
    Mutant("        if spans.rows != size:\n", "        if False:\n"),
    Mutant(
        "        if columns.keys() != expected.keys():\n",
        "        if not columns.keys() >= expected.keys():\n",
    ),
    Mutant(
        "        if columns.keys() != expected.keys():\n",
        "        if not columns.keys() <= expected.keys():\n",
    ),
    Mutant(' if columns["reward"].ndim else 0', ""),
    Mutant("values.shape != (rows, *column.shape) or ", ""),
    Mutant(" or values.dtype != column.stored:", ":"),
    Mutant(" or values.dtype != column.stored:", " or values.dtype != column.dtype:"),
    Mutant('column.stored.kind == "b" and (values', "False and (values"),
    Mutant(
        "        refuse_pending(path, moment, drop_pending)\n        generator", "        generator"
    ),
    Mutant(
        "buffer._take_up(checked, file.chunks(), seed)",
        "buffer._take_up(checked, file.chunks(), None)",
    ),
    Mutant("        self._saves.drain()  #", "        #"),
    Mutant(
        "            for snapshot in begun:\n"
        "                self._end_save(snapshot)\n"
        "            raise",
        "            raise",
    ),
    Mutant("            if snapshot in self._snapshots:\n", "            if True:\n"),
    Mutant("        self._ops.synchronize()  # a graph", "        # a graph"),
    Mutant("moment.pending is not None and not drop:", "moment.pending and drop:"),
]

_REPLAY_SALVAGE = [
    Mutant("0 <= held <= buffer._capacity", "0 <= held < buffer._capacity"),
    Mutant("(is_int(held) and 0 <= held <= buffer._capacity)", "is_int(held)"),
    Mutant(
        "            with contextlib.suppress(CheckpointError):  # whole",
        "            if True:  # whole",
    ),
    Mutant('file.moment().state.get("control")', "{}"),
    Mutant(
        "            with contextlib.suppress(CheckpointError):\n                rows",
        "            if True:\n                rows",
    ),
    Mutant("                if spans.has(first, rows):", "                if True:"),
    Mutant("targets.pop(first, ())", "targets.get(first, ())"),
    Mutant("slice(row - first, row - first + count)", "slice(0, count)"),
    Mutant("buffer._ops.put_rows(target, {", "buffer._ops.put_rows(row, {"),
    Mutant("        file.moment()\n        for first", "        for first"),
    Mutant("lost_rows=int(held) - spans.rows", "lost_rows=buffer._capacity - spans.rows"),
    Mutant("            fields |= exponents_of(control)\n", "            pass\n"),
    Mutant(
        "        with contextlib.suppress(CheckpointError):  # a state",
        "        if True:  # a state",
    ),
    Mutant("np.broadcast_to(np.float32(1.0), rows)", "np.broadcast_to(np.float32(0.0), rows)"),
    Mutant('        buffer._policy.alpha = float(fields.get("alpha", buffer._policy.alpha))\n', ""),
    Mutant("    buffer._set_control(fields)\n", ""),
    Mutant("    buffer._known.restore(rows)\n", ""),
]

_BACKGROUND = [
    Mutant(
        "                self._running = True\n                superseded = None\n",
        "                superseded = None\n",
    ),
    Mutant(
        "superseded, self._next = self._next, (begin, future)",
        "superseded, self._next = None, (begin, future)",
    ),
    Mutant(
        "superseded, self._next = self._next, (begin, future)",
        "superseded = (begin, future)\n                self._next = self._next or superseded",
    ),
    Mutant("            superseded[1].cancel()\n", ""),
    Mutant("            superseded[1].set_running_or_notify_cancel()  #", "            #"),
    Mutant("                _in_a_thread(self._run_waiting)  #", "                #"),
    Mutant(
        "                _in_a_thread(self._run_waiting)  #",
        "                self._running = False  #",
    ),
    Mutant(
        "                raise\n            future.set_running",
        "                return future\n            future.set_running",
    ),
    Mutant(
        "            future.set_running_or_notify_cancel()\n            _in_a_thread",
        "            _in_a_thread",
    ),
    Mutant(
        "            _in_a_thread(functools.partial(self._run, write, future))\n",
        "            self._run(write, future)\n",
    ),
    Mutant(
        "        _settle(future, write)\n        self._run_waiting()\n",
        "        _settle(future, write)\n",
    ),
    Mutant(
        "        _settle(future, write)\n        self._run_waiting()\n",
        "        _settle(future, write)\n        self._running = False\n",
    ),
    Mutant("                    self._running = False\n", "                    pass\n"),
    Mutant("                    self._idle.notify_all()\n", ""),
    Mutant(
        "            while self._running:\n                self._idle.wait()\n",
        "            if False:\n                self._idle.wait()\n",
    ),
    Mutant(
        "            if future.set_running_or_notify_cancel():\n                _settle",
        "            if True:\n                _settle",
    ),
    Mutant("lambda begin=begin: begin()()", "lambda begin=begin: begin()"),
    Mutant('name="cpreplay-save")', 'name="cpreplay-save", daemon=True)'),
    Mutant(
        "    except RuntimeError:\n        work()\n", "    except RuntimeError:\n        pass\n"
    ),
    Mutant(
        "    except BaseException as error:  # whatever",
        "    except Exception as error:  # whatever",
    ),
    Mutant(
        "            try:\n                write = begin()\n            except BaseException:\n",
        "            try:\n                write = begin()\n            except Exception:\n",
    ),
    Mutant("(begin, future), self._next = self._next, None", "begin, future = self._next"),
]

_REPLAY_FILE = [
    Mutant('"pending": pending is not None, **header}', "**header}"),
    Mutant(
        "            for first, part in _parts(moment.leaves):\n",
        "            for first, part in [(0, moment.leaves)]:\n",
        open="leaves of more than 16 MiB",
    ),
    Mutant(
        'f"rows/{first:012}/{name}.npy"',
        'f"rows/{first}/{name}.npy"',
        equivalent="a file all the same, sorted otherwise when unpacked",
    ),
    Mutant("            if kind != KIND:\n", "            if False:\n"),
    Mutant("            self._reader.close()\n            raise\n", "            raise\n"),
    Mutant("self._refuse_damage(self._reader.verify())", "self._reader.verify()"),
    Mutant("                self._held = members\n", "                pass\n"),
    Mutant(
        "                        if state is not None:\n", "                        if False:\n"
    ),
    Mutant('case ["leaves", _] if not self._salvage:', 'case ["leaves", _]:'),
    Mutant('case ["pending", column, _] if not self._salvage:', 'case ["pending", column, _]:'),
    Mutant(
        "                        if settings is not None:\n", "                        if False:\n"
    ),
    Mutant("        if state is None and not self._salvage:\n", "        if False:\n"),
    Mutant("        if state is None and not self._salvage:\n", "        if state is None:\n"),
    Mutant('if self.header.get("prioritized") is True else None', "if leaves else None"),
    Mutant("held = [] if self._held is None else [self._held]", "held = []"),
    Mutant(
        "                if not self._salvage:\n"
        "                    raise\n"
        "                continue\n"
        "            if chunk",
        "                raise\n            if chunk",
    ),
    Mutant(
        "                if not self._salvage:\n"
        "                    raise\n"
        "                continue\n"
        "            if chunk",
        "                continue\n            if chunk",
    ),
    Mutant("if row.isascii() and row.isdigit() and len(row) <= 12:", "if row.isdigit():"),
    Mutant("if row.isascii() and row.isdigit() and len(row) <= 12:", "if True:"),
    Mutant("        if len(places) > 1:\n", "        if False:\n"),
    Mutant(
        "                if not self._salvage:\n"
        "                    raise\n"
        "                continue\n"
        "            yield members",
        "                raise\n            yield members",
    ),
    Mutant(
        "        if not self._salvage:\n            self._refuse_damage(self._reader.damaged)\n", ""
    ),
    Mutant("if damaged or not self._reader.complete:", "if damaged:"),
    Mutant("if damaged or not self._reader.complete:", "if not self._reader.complete:"),
    Mutant("        if not isinstance(value, dict):\n", "        if False:\n"),
    Mutant('array.ndim == 0 or name.rpartition("/")[2] != f"{at:012}.npy"', "array.ndim == 0"),
    Mutant("array.ndim == 0 or ", ""),
    Mutant(
        "if parts and (parts[0].shape[1:], parts[0].dtype)",
        "if False and (parts[0].shape[1:], parts[0].dtype)",
    ),
    Mutant('np.asarray(read_npy(content, name), order="C")', "read_npy(content, name)"),
    Mutant(
        "for first in range(0, max(1, len(array)), step):",
        "for first in range(0, len(array), step):",
    ),
    Mutant(
        "yield first, array[first : first + step]",
        "yield first, array[first:]",
        open="arrays of more than 16 MiB",
    ),
    Mutant(
        "parts[0] if len(parts) == 1 else np.concatenate(parts)",
        "parts[0]",
        open="arrays of more than 16 MiB",
    ),
]

_CONTAINER = [
    Mutant(
        "        if self._finished:\n            raise OrderError",
        "        if False:\n            raise OrderError",
    ),
    Mutant(
        "        self._starts.append(self._at)\n"
        "        self._put_frame(_RECORD, _with_crc(fields))\n",
        "        self._put_frame(_RECORD, _with_crc(fields))\n"
        "        self._starts.append(self._at)\n",
    ),
    Mutant("            self.write([TAR_END])\n", ""),
    Mutant('np.array(self._starts, "<u8")', 'np.array(self._starts, ">u8")'),
    Mutant("        writer.finish()\n", ""),
    Mutant("json_bytes({**own, **usual, **header, **own}", "json_bytes({**own, **header, **usual}"),
    Mutant("elif number and record != TAR_END:", "elif record != TAR_END:"),
    Mutant("elif number and record != TAR_END:", "elif number:"),
    Mutant("elif number and not self._ends_tar(record):", "elif number:"),
    Mutant("        if version > VERSION:\n", "        if False:\n"),
    Mutant(
        "if not isinstance(version, int) or not is_count(version):",
        "if not isinstance(version, int):",
    ),
    Mutant(
        "payload[:_ABOUT_AT] == MAGIC + _U32.pack(zlib.crc32(about))",
        "payload[: len(MAGIC)] == MAGIC",
    ),
    Mutant("self._header_copy() if about is None else about", "about or b''"),
    Mutant(" and len(starts) == ending[1]:", ":"),
    Mutant(
        "            if ending is not None and not self.complete and ending[1] >= len(starts):\n",
        "            if False:\n",
    ),
    Mutant("starts.extend([0] * (ending[1] - len(starts)))", "pass"),
    Mutant("end = starts[number] or end", "end = starts[number]"),
    Mutant("count <= min(index_at, at) // _RECORD_BYTES", "True"),
    Mutant("after - before >= _RECORD_BYTES", "after > before"),
    Mutant(
        "return starts if apart and starts[0] else None", "return starts if starts[0] else None"
    ),
    Mutant("if not starts or body[: _U32.size] != _U32.pack(len(starts)):", "if not starts:"),
    Mutant("if index is None or len(index) < len(starts):", "if index is None:"),
    Mutant("            if magic == _TRAILER:\n                break\n", ""),
    Mutant("if fields is None or fields[0] > at // _RECORD_BYTES:", "if fields is None:"),
    Mutant("                starts.append(0)  #", "                #"),
    Mutant("if number >= len(starts):  #", "if True:  #"),
    Mutant("                starts.extend([0] * (number - len(starts)))\n", ""),
    Mutant(
        "            at += _RECORD_BYTES + fields[1]\n",
        "            at += _RECORD_BYTES + fields[2]\n",
    ),
    Mutant("if found == magic and length <= most else", "if found == magic else"),
    Mutant("if found == magic and length <= most else", "if length <= most else"),
    Mutant(
        "return fields if fields[0] == number and ends_in_time else None",
        "return fields if ends_in_time else None",
    ),
    Mutant(
        "return fields if fields[0] == number and ends_in_time else None",
        "return fields if fields[0] == number else None",
    ),
    Mutant("size > self._limit or ", ""),
    Mutant(" or compressed > size + size // 128 + 1024", ""),
    Mutant("return None if fault_of(record, self._limit) else record", "return record"),
    Mutant(
        "            if not piece:\n                return False\n",
        "            if not piece:\n                break\n",
    ),
    Mutant("crc = zlib.crc32(piece, crc)", "crc = zlib.crc32(piece)"),
    Mutant("return crc == wanted", "return True"),
    Mutant("return body if crc == _U32.pack(zlib.crc32(body)) else None", "return body"),
    Mutant("if not stat.S_ISREG(os.stat(path).st_mode):", "if False:"),
]

_ENCODING = [
    Mutant("write_checksum=True", "write_checksum=False"),
    Mutant("if not size or size % BLOCK:", "if size % BLOCK:"),
    Mutant("if not size or size % BLOCK:", "if not size:"),
    Mutant(
        "EncodedRecord(frame, size, zlib.crc32(frame))",
        "EncodedRecord(frame, len(frame), zlib.crc32(frame))",
    ),
    Mutant("    if zlib.crc32(frame) != record.crc:\n", "    if False:\n"),
    Mutant("if not 0 < size <= min(limit, possible):", "if not 0 < size <= limit:"),
    Mutant("if not 0 < size <= min(limit, possible):", "if not 0 < size <= possible:"),
    Mutant("if not 0 < size <= min(limit, possible):", "if not 0 < size < min(limit, possible):"),
    Mutant('return "" if stated == size else', 'return "" if True else'),
    Mutant("allow_extra_data=False", "allow_extra_data=True"),
    Mutant('if not hasattr(_of_thread, "decompressor"):', "if True:", equivalent="slower"),
    Mutant(
        "_of_thread = threading.local()",
        "_of_thread = type('Shared', (), {})()",
        open="two threads in one decompressor end the process, now and then",
    ),
]

_MEMBERS = [
    Mutant("    if size > _LARGEST:\n", "    if False:\n", open="it takes 8 GiB"),
    Mutant("bytes(-size % BLOCK)", "bytes(BLOCK - size % BLOCK)"),
    Mutant("    if not array.flags.f_contiguous:\n", "    if not array.flags.contiguous:\n"),
    Mutant("array if array.flags.c_contiguous else array.T", "array"),
    Mutant("    if head.tell() > _ARRAY_HEADER_LIMIT:\n", "    if False:\n"),
    Mutant("ensure_ascii=False, allow_nan=False", "ensure_ascii=False"),
    Mutant("    if len(text) > JSON_LIMIT:\n", "    if False:\n"),
    Mutant("    if record == TAR_END:\n        return members\n", ""),
    Mutant("    if len(record) % BLOCK:\n", "    if False:\n"),
    Mutant("        if size > len(view) - at:\n", "        if size > len(view):\n"),
    Mutant("        if is_file:\n", "        if True:\n"),
    Mutant("            if name in members:\n", "            if False:\n"),
    Mutant("        at += size + -size % BLOCK\n", "        at += size\n"),
    Mutant("not _is_plain(dtype) or dtype.itemsize == 0", "not _is_plain(dtype)"),
    Mutant("not _is_plain(dtype) or dtype.itemsize == 0", "dtype.itemsize == 0"),
    Mutant("type(length) is int and length >= 0", "type(length) is int"),
    Mutant("    if stated != there:\n", "    if stated > there:\n"),
    Mutant("    if stated != there:\n", "    if stated < there:\n"),
    Mutant('order="F" if in_fortran_order else "C"', 'order="C"'),
    Mutant("    if size > JSON_LIMIT:\n", "    if False:\n"),
    Mutant("            object_pairs_hook=_object_of,\n", ""),
    Mutant("            parse_constant=_no_number,\n", ""),
    Mutant("            parse_float=_finite,\n", ""),
    Mutant(
        "(ValueError, RecursionError) as error:\n        raise CheckpointError",
        "ValueError as error:\n        raise CheckpointError",
    ),
    Mutant("        return _is_plain(dtype.subdtype[0])\n", "        return True\n"),
    Mutant("all(_is_plain(dtype[name]) for name in dtype.names)", "True"),
    Mutant("1 <= length <= _NAME_LIMIT", "1 <= length < _NAME_LIMIT"),
    Mutant(
        "1 <= length <= _NAME_LIMIT",
        "length <= _NAME_LIMIT",
        equivalent="an empty name is no plain relative path either",
    ),
    Mutant("    if _BAD_IN_NAMES.search(name):\n", "    if _BAD_IN_NAMES.match(name):\n"),
    Mutant('{"", ".", ".."}.isdisjoint', '{".", ".."}.isdisjoint'),
    Mutant('{"", ".", ".."}.isdisjoint', '{"", "."}.isdisjoint'),
    Mutant("!= sum(header) - sum(checksum) + sum(_NO_CHECKSUM)", "!= sum(header) - sum(checksum)"),
    Mutant('    if magic != (b"ustar\\0", b"00"):\n', "    if False:\n"),
    Mutant('kind in (b"0", b"\\0")', 'kind == b"0"'),
    Mutant('    if prefix[:1] != b"\\0":\n', "    if False:\n"),
    Mutant("return int(match[1], 8)", "return int(match[1])"),
]

_DAMAGE = [
    Mutant("runs[-1][-1] == number - 1", "runs[-1][0] == number - 1"),
    Mutant("if len(texts) > most else", "if len(texts) >= most else"),
    Mutant("in sorted(numbers)", "in numbers"),
    Mutant("len(runs) == 1 and len(runs[0]) == 1", "len(runs) == 1"),
    Mutant("len(runs) == 1 and len(runs[0]) == 1", "len(runs[0]) == 1"),
]

CHECKPOINT_PYTHON = {
    "cpreplay/words.py": _WORDS,
    "cpreplay/replay_state.py": _REPLAY_STATE,
    "cpreplay/host_snapshot.py": _HOST_SNAPSHOT,
    "cpreplay/device_snapshot.py": _DEVICE_SNAPSHOT,
    "cpreplay/replay_checkpoints.py": _REPLAY_CHECKPOINTS,
    "cpreplay/replay_salvage.py": _REPLAY_SALVAGE,
    "cpreplay/checkpoint/background.py": _BACKGROUND,
    "cpreplay/checkpoint/damage.py": _DAMAGE,
    "cpreplay/checkpoint/replay_file.py": _REPLAY_FILE,
    "cpreplay/checkpoint/container.py": _CONTAINER,
    "cpreplay/checkpoint/encoding.py": _ENCODING,
    "cpreplay/checkpoint/members.py": _MEMBERS,
}
