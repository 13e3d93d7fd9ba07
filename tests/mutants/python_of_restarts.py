"""Mistakes in the restart pool, schedules and reports. `python` has them in its table."""

from tests.mutants.mutant import Mutant

_POOL_TESTS = ("restart_pool", "restart_checkpoints", "state_machine_restart", "restart_threads")

RESTART_PYTHON_TESTS = {
    "cpreplay/restart/contents.py": _POOL_TESTS,
    "cpreplay/restart/buckets.py": _POOL_TESTS,
    "cpreplay/restart/draws.py": _POOL_TESTS,
    "cpreplay/restart/pool.py": _POOL_TESTS,
    "cpreplay/restart/pool_files.py": _POOL_TESTS,
    "cpreplay/restart/files.py": ("restart_checkpoints", "restart_pool"),
    "cpreplay/restart/point.py": ("restart_pool", "restart_checkpoints"),
    "cpreplay/restart/marker.py": ("restart_pool", "restart_checkpoints"),
    "cpreplay/restart/configuration.py": ("restart_configuration", "restart_pool"),
    "cpreplay/schedule.py": ("schedule", "restart_configuration"),
    "cpreplay/gym/restarts.py": ("gym_restarts",),
    "cpreplay/inspection.py": ("inspect",),
}

_CONTENTS = [
    Mutant("bisect_left(self._filled, bucket.key,", "bisect_left(self._filled, bucket.key, 1,"),
    Mutant(
        "key, self._configuration.max_per_key, self._configuration.advance_window",
        "key, self._configuration.advance_window, self._configuration.max_per_key",
    ),
    Mutant(
        "for bucket in self.buckets.values())\n\n",
        "for bucket in self._filled)\n\n",
        equivalent="a bucket without points has no bytes",
    ),
    Mutant('        if self._configuration.selection == "uniform":\n            return 1.0\n', ""),
    Mutant("bucket.failure(self._configuration.selection_floor)", "bucket.failure(0.1)"),
    Mutant(
        "            buckets = [bucket for bucket in buckets if bucket.eligible]\n",
        "            pass\n",
    ),
    Mutant(
        "            buckets = [bucket for bucket in buckets if bucket.eligible]\n",
        "            buckets = [bucket for bucket in buckets if not bucket.held_back]\n",
    ),
    Mutant(
        "        if not buckets:\n            return None\n",
        "        if not self._filled:\n            return None\n",
    ),
    Mutant("return buckets[pick(u, len(buckets))]", "return buckets[pick(u, len(self._filled))]"),
    Mutant(
        "return buckets[pick_weighted(u, [self.weight(bucket) for bucket in buckets])]",
        "return buckets[pick(u, len(buckets))]",
    ),
    Mutant(
        "[self.weight(bucket) for bucket in buckets]",
        "[self.weight(bucket) * len(bucket.points) for bucket in buckets]",
    ),
    Mutant(
        "        if not bucket.points:\n            self._filled.insert",
        "        if bucket not in self._filled:\n            self._filled.insert",
        equivalent="slower",
    ),
    Mutant("self._filled.insert(self._place(bucket), bucket)", "self._filled.append(bucket)"),
    Mutant("            del self.live[oldest.serial]\n", "            pass\n"),
    Mutant("            self._filled.pop(self._place(bucket))\n", "            pass\n"),
    Mutant(
        "            self._filled.pop(self._place(bucket))\n",
        "            self._filled.pop(self._place(bucket))\n"
        "            del self.buckets[point.key]\n",
    ),
    Mutant("        del self.live[point.serial]\n", ""),
    Mutant(
        "        if not bucket.points:\n            self._filled.pop",
        "        if True:\n            self._filled.pop",
    ),
    Mutant("        point.in_flight += change\n", ""),
    Mutant(
        "hold_back(point.serial, point.in_flight >= self._limit)",
        "hold_back(point.serial, point.in_flight > self._limit)",
    ),
    Mutant(
        "hold_back(point.serial, point.in_flight >= self._limit)",
        "hold_back(point.serial, point.in_flight == self._limit)",
        equivalent="it grows by one, and stops there",
    ),
    # What check finds
    Mutant(
        "                if point.serial >= next_serial:\n",
        "                if point.serial > next_serial:\n",
    ),
    Mutant("        if in_buckets != len(self.live):\n", "        if False:\n"),
    Mutant(
        "        if [bucket.key for bucket in self.filled()] != filled:\n", "        if False:\n"
    ),
    Mutant("        if key != bucket.key:\n", "        if False:\n"),
    Mutant("        if len(serials) > self._configuration.max_per_key:\n", "        if False:\n"),
    Mutant("        if bucket.nbytes != sum(", "        if False and bucket.nbytes != sum("),
    Mutant("if any(a >= b for a, b in pairwise(serials)):", "if False:"),
    Mutant("        if bucket.advances != sum(bucket.window):\n", "        if False:\n"),
    Mutant("> bucket.finished:", "> bucket.finished + 10**6:"),
    Mutant("        if bucket.held_back != held_back:\n", "        if False:\n"),
    Mutant("        if self.live.get(point.serial) is not point:\n", "        if False:\n"),
    Mutant("if point.key != key or markers.key(point.values) != key:", "if False:"),
    Mutant("        if refusal is not None:\n", "        if False:\n"),
    Mutant("if not 0 <= point.timeouts < self._configuration.max_timeouts_per_point:", "if False:"),
    Mutant("        if point.in_flight != open_draws:\n", "        if False:\n"),
    Mutant(
        "        if zlib.crc32(point.record.frame) != point.record.crc:\n", "        if False:\n"
    ),
]

_BUCKETS = [
    Mutant(
        "self.window: deque[bool] = deque(maxlen=window)",
        "self.window: deque[bool] = deque(maxlen=capacity)",
    ),
    Mutant("self.lengths: deque[int] = deque(maxlen=window)", "self.lengths: deque[int] = deque()"),
    Mutant("if len(self.points) == self.capacity:", "if len(self.points) > self.capacity:"),
    Mutant("self.remove(self.points[0].serial)", "self.remove(self.points[-1].serial)"),
    Mutant("            self.overwritten += 1\n", ""),
    Mutant(
        "        self.nbytes += len(point.record.frame)\n",
        "        self.nbytes += point.record.size\n",
    ),
    Mutant("        self.hold_back(serial, False)\n", ""),
    Mutant("        self.nbytes -= len(point.record.frame)\n", ""),
    Mutant(
        "there = place < len(self.held_back) and self.held_back[place] == serial",
        "there = place < len(self.held_back)",
    ),
    Mutant(
        "        if held and not there:\n",
        "        if held:\n",
        equivalent="a point that is held back is not drawn, so nobody holds it back again",
    ),
    Mutant(
        "        elif there and not held:\n",
        "        elif there:\n",
        equivalent="a point that is held back is not drawn, so nobody holds it back again",
    ),
    Mutant("return len(self.points) - len(self.held_back)", "return len(self.points)"),
    Mutant(
        "            if self.index(serial) > place:\n",
        "            if self.index(serial) >= place:\n",
    ),
    Mutant(
        "                break\n            place += 1\n",
        "                continue\n            place += 1\n",
        equivalent="those behind come later still",
    ),
    Mutant("            place += 1\n", "            pass\n"),
    Mutant("            self.advances -= self.window[0]\n", "            pass\n"),
    Mutant(
        "            self.advances -= self.window[0]\n",
        "            self.advances -= self.window[-1]\n",
    ),
    Mutant(
        "if len(self.window) == self.window.maxlen:\n            self.adv",
        "if len(self.window) > 1:\n            self.adv",
    ),
    Mutant("        self.finished += 1\n", ""),
    Mutant("        if steps is not None:\n", "        if steps:\n"),
    Mutant("self.advances / len(self.window) if", "self.advances / self.finished if"),
    Mutant("if self.window else None", "if self.window else 0.0"),
    Mutant("max(1.0 - (self.advance_rate or 0.0), floor)", "max(self.advance_rate or 0.0, floor)"),
    Mutant(
        "max(1.0 - (self.advance_rate or 0.0), floor)", "1.0 - (self.advance_rate or 0.0) + floor"
    ),
    Mutant(
        "max(1.0 - (self.advance_rate or 0.0), floor)",
        "max(1.0 - (1.0 if self.advance_rate is None else self.advance_rate), floor)",
    ),
    Mutant("statistics.median(self.lengths)", "statistics.mean(self.lengths)"),
    Mutant("min(int(u * count), count - 1)", "min(round(u * count), count - 1)"),
    Mutant("min(int(u * count), count - 1)", "int(u * (count - 1))"),
    Mutant(
        "min(int(u * count), count - 1)",
        "int(u * count)",
        equivalent="the largest u below 1 times any count of points is below the count",
    ),
    Mutant("        if running > target:\n", "        if running >= target:\n"),
    Mutant("    return len(weights) - 1\n", "    return 0\n"),
    Mutant("u * _running_sum(weights)", "u"),
    Mutant(
        "u * _running_sum(weights)",
        "u * sum(weights)",
        open="up to Python 3.11 both are one; later ones compensate, and a test sees it",
    ),
]

_DRAWS = [
    Mutant("_LANES = 3", "_LANES = 4"),
    Mutant("splitmix64(seed)", "seed"),
    Mutant(
        "np.tile(np.arange(_LANES, dtype=np.uint64), _AHEAD)",
        "np.repeat(np.arange(_LANES, dtype=np.uint64), _AHEAD)",
    ),
    Mutant("keys >> np.uint64(32))\n", "keys & np.uint64(0))\n"),
    Mutant("if not 0 <= place < len(self._block):", "if not 0 <= place <= len(self._block):"),
    Mutant("if not 0 <= place < len(self._block):", "if place >= len(self._block):"),
    Mutant(
        "self._numbers(self.drawn), self.drawn, 0", "self._numbers(self.drawn), self.drawn + 1, 0"
    ),
    Mutant("self._numbers(self.drawn), self.drawn, 0", "self._numbers(self._first), self.drawn, 0"),
    Mutant("        self.drawn += 1\n", ""),
    Mutant("draws >> np.uint64(32), none, none + RESTARTS", "none, none, none + RESTARTS"),
    Mutant("none, none + RESTARTS", "none + RESTARTS, none"),
    Mutant("high << np.uint64(32) | low", "low << np.uint64(32) | high"),
    Mutant(
        "np.repeat(np.arange(_AHEAD, dtype=np.uint64) + np.uint64(first), _LANES)",
        "np.tile(np.arange(_AHEAD, dtype=np.uint64) + np.uint64(first), _LANES)",
    ),
    Mutant("(a, b, c) for a, b, c", "(a, c, b) for a, b, c"),
]

_POOL = [
    # Making
    Mutant(
        "        if not isinstance(configuration, RestartPoolConfiguration):\n",
        "        if False:\n",
    ),
    Mutant(
        "if max_in_flight_per_point is not None and not is_count(max_in_flight_per_point):",
        "if False:",
    ),
    Mutant("if machine is not None and not is_label(machine):", "if False:"),
    Mutant("self._identity = secrets.randbits(64)", "self._identity = 0"),
    Mutant("Contents(configuration, max_in_flight_per_point)", "Contents(configuration, None)"),
    # Offering
    Mutant(
        "if not (is_int(steps_used) and 0 <= steps_used < 2**63):", "if not is_int(steps_used):"
    ),
    Mutant(
        "if not (is_int(steps_used) and 0 <= steps_used < 2**63):",
        "if not 0 <= steps_used < 2**63:",
    ),
    Mutant("            self._require_own(restart)\n", "            pass\n"),
    Mutant(
        "            with self._lock:\n"
        "                self._require_format(stack)\n"
        "                loads",
        "            with self._lock:\n                loads",
        equivalent="it is compressed in vain, and refused below",
    ),
    Mutant("                loads = self._loads\n", ""),
    Mutant("self._next_name, self._next_name + 1\n", "self._next_name, self._next_name\n"),
    Mutant("            self._require_format(stack)\n            unfit", "            unfit"),
    Mutant("None if record is None else self._take_format(stack)", "self._take_format(stack)"),
    Mutant("            self._offers += 1\n", "            self._offers += record is not None\n"),
    Mutant("+= restart is not None", "+= restart is None"),
    Mutant("                self._refused[refusal] += 1\n", ""),
    Mutant("            elif loads == self._loads:", "            else:"),
    Mutant(
        "        if unfit is not None:\n            warnings",
        "        if False:\n            warnings",
    ),
    Mutant("        return is_in\n", "        return True\n"),
    Mutant("        return is_in\n", "        return record is not None\n"),
    # Drawing
    Mutant("if whether < probability else None", "if whether <= probability else None"),
    Mutant("if whether < probability else None", "if which < probability else None"),
    Mutant("self._contents.choose(which)", "self._contents.choose(whether)"),
    Mutant("self._contents.choose(which)", "self._contents.choose(where)"),
    Mutant("bucket.choose(where)", "bucket.choose(which)"),
    Mutant(
        "            whether, which, where = self._numbers.take()\n"
        "            bucket = self._contents.choose(which) if whether < probability else "
        "None\n",
        "            if not self._contents.live:\n"
        "                return None\n"
        "            whether, which, where = self._numbers.take()\n"
        "            bucket = self._contents.choose(which) if whether < probability else "
        "None\n",
    ),
    Mutant("self._restarts, self._restarts + 1\n", "self._restarts, self._restarts\n"),
    Mutant("            bucket.restarts += 1\n", ""),
    Mutant("            self._contents.count_in_flight(point, 1)\n", ""),
    Mutant("frame_stack=decoded.stack.copy()", "frame_stack=decoded.stack"),
    Mutant(
        "values=dict(point.values),\n                key",
        "values=point.values,\n                key",
    ),
    Mutant(
        '                self._close(number, "draw")[1].abandoned += 1\n'
        "                self._abandoned += 1\n",
        "                pass\n",
    ),
    Mutant(
        '                self._close(number, "draw")[1].abandoned += 1\n'
        "                self._abandoned += 1\n",
        '                self._close(number, "draw")\n',
    ),
    # Reports
    Mutant("counts = self._markers.refusal(checked) is None", "counts = True"),
    Mutant("self._markers.key(checked) > episode.key", "self._markers.key(checked) >= episode.key"),
    Mutant("self._markers.key(checked) > episode.key", "self._markers.key(checked) != episode.key"),
    Mutant(
        "            if counts and self._markers.key(checked) > episode.key:\n"
        "                episode.advanced = True\n",
        "            episode.advanced = counts and self._markers.key(checked) > episode.key\n",
    ),
    Mutant("        if not isinstance(timed_out, bool | np.bool_):\n", "        if False:\n"),
    Mutant(
        "if steps is not None and not (is_int(steps) and 0 <= steps < 2**63):",
        "if steps is not None and not is_int(steps):",
    ),
    Mutant("bucket.enter(episode.advanced, ", "bucket.enter(not timed_out, "),
    Mutant(
        "            bucket.timeouts += bool(timed_out)\n",
        "            bucket.timeouts += point is not None and bool(timed_out)\n",
    ),
    Mutant("                bucket.late_reports += 1\n", "                pass\n"),
    Mutant(
        "            elif timed_out:\n                point.timeouts",
        "            else:\n                point.timeouts",
    ),
    Mutant(
        "if point.timeouts >= self._configuration.max_timeouts_per_point:",
        "if point.timeouts > self._configuration.max_timeouts_per_point:",
    ),
    Mutant(
        "if point.timeouts >= self._configuration.max_timeouts_per_point:",
        "if bucket.timeouts >= self._configuration.max_timeouts_per_point:",
    ),
    Mutant("                    bucket.dropped += 1\n", ""),
    Mutant("                    self._dropped += 1\n", ""),
    Mutant("if bucket.points else 0.0", "if True else 0.0"),
    Mutant('"in_flight": in_flight[key]', '"in_flight": len(self._episodes)'),
    Mutant("sorted(self._contents.buckets.items())", "self._contents.buckets.items()"),
    Mutant('"offers_refused": dict(self._refused)', '"offers_refused": self._refused'),
    Mutant("        if restart._ticket.pool != self._identity:\n", "        if False:\n"),
    Mutant("        if number not in self._episodes:\n", "        if False:\n"),
    Mutant("        del self._episodes[number]\n", ""),
    Mutant("self._contents.count_in_flight(point, -1)", "pass"),
    Mutant(
        "point = self._contents.live.get(episode.serial)", "point = next(iter(bucket.points), None)"
    ),
    # Formats
    Mutant(
        "        if self._stack is None or self._stack_is_filed:\n            return\n",
        "        if self._stack is None:\n            return\n",
    ),
    Mutant("        if stack.shape != self._stack.shape:\n", "        if False:\n"),
    Mutant("        if stack.dtype != self._stack.dtype:\n", "        if False:\n"),
    Mutant(
        "if self._stack_is_filed else None, False\n",
        "if self._stack_is_filed else None, self._stack_is_filed\n",
    ),
    Mutant("        if filed is None or filed == live:\n", "        if filed is None:\n"),
    Mutant(
        "            self._contents.take_out(point)\n        self._unfit",
        "            pass\n        self._unfit",
    ),
    Mutant("        self._unfit += unfit\n", ""),
    Mutant("if not len(self._episodes) <= self._restarts <= self._numbers.drawn:", "if False:"),
]

_POOL_FILES = [
    # Files
    Mutant("        self._write(path, 0)\n", "        self._write(path, 1)\n"),
    Mutant("        self._require_process()  # before", "        # before"),
    Mutant("        self._saves.drain()  #", "        #"),
    Mutant(
        "        self._saves.drain()  # or one of another moment would take this one's place\n"
        "        return write_points(path, *self._copy(newest))\n",
        "        copy = self._copy(newest)\n"
        "        self._saves.drain()\n"
        "        return write_points(path, *copy)\n",
    ),
    Mutant("        with self._saving:  #", "        if True:  #"),
    Mutant(
        "            return self._saves.submit(lambda: write)\n",
        "            return self._saves.submit(lambda: partial(write_points, path, "
        "*self._copy(newest)))\n",
    ),
    Mutant(
        "        if not self._configuration.save_in_checkpoints:\n            return _done",
        "        if False:\n            return _done",
    ),
    Mutant("return _done(None) if background else None", "return None"),
    Mutant("        if not self._configuration.save_in_checkpoints:\n            return 0\n", ""),
    Mutant("newest = self._configuration.checkpoint_points_per_key", "newest = 0"),
    Mutant("(FileNotFoundError, NotADirectoryError)", "FileNotFoundError"),
    Mutant(
        "        except OSError as error:\n            taken",
        "        except PermissionError as error:\n            taken",
    ),
    Mutant("                self._require_fit(filed.about)  #", "                #"),
    Mutant(
        "require_fit)\n            with",
        "lambda about: None)\n            with",
        equivalent="points are decoded in vain, and refused below",
    ),
    Mutant('None if filed.damage is None else f"{path}: {filed.damage}"', "None"),
    Mutant("bucket.points[-newest:] for", "bucket.points[:newest] for"),
    Mutant(
        "draws=self._numbers.drawn,\n                next_name",
        "draws=self._restarts,\n                next_name",
    ),
    Mutant("next_name=self._next_name,", "next_name=len(self._contents.live),"),
    Mutant("points=sum(map(len, parts))", "points=len(self._contents.live)"),
    # Ends
    Mutant("        if os.getpid() != self._process:\n", "        if False:\n"),
    Mutant(
        "        if about.key != self._configuration.key:\n",
        "        if set(about.key) != set(self._configuration.key):\n",
    ),
    Mutant("        if about.key != self._configuration.key:\n", "        if False:\n"),
    Mutant(
        "if self._machine is not None and about.machine != self._machine:",
        "if about.machine is not None and about.machine != self._machine:",
    ),
    Mutant(
        "if self._machine is not None and about.machine != self._machine:",
        "if None not in (self._machine, about.machine) and about.machine != self._machine:",
    ),
    Mutant(
        "if self._stack_is_filed or None in (self._stack, about.stack):",
        "if None in (self._stack, about.stack):",
    ),
    Mutant("        if about.stack != self._stack:\n", "        if False:\n"),
    # Replacing
    Mutant("        self._loads += 1\n", ""),
    Mutant(
        "        self._contents = Contents(self._configuration, self._limit)\n"
        "        self._next_name",
        "        self._next_name",
    ),
    Mutant(
        "Contents(self._configuration, self._limit)\n        self._next_name",
        "Contents(self._configuration, None)\n        self._next_name",
    ),
    Mutant("        self._next_name = filed.next_name  #", "        #"),
    Mutant("max(self._numbers.drawn, filed.about.draws)", "filed.about.draws"),
    Mutant("max(self._numbers.drawn, filed.about.draws)", "self._numbers.drawn"),
    Mutant("            self._refused[refusal] += count\n", "            pass\n"),
    Mutant(
        "        if self._stack is None or self._stack_is_filed:\n            self._stack, ",
        "        if self._stack is None:\n            self._stack, ",
    ),
    Mutant("filed.about.stack, filed.about.stack is not None", "filed.about.stack, True"),
    Mutant("filed.about.stack, filed.about.stack is not None", "filed.about.stack, False"),
    Mutant("        self._next_serial += 1\n", ""),
]

_FILES = [
    Mutant("_MOST = 10**15", "_MOST = 2**63"),
    Mutant('if header.get("kind") != KIND:', "if False:"),
    Mutant(
        "isinstance(key, list) and key and all(map(is_label, key))",
        "isinstance(key, list) and all(map(is_label, key))",
    ),
    Mutant(
        "isinstance(key, list) and key and all(map(is_label, key))", "isinstance(key, list) and key"
    ),
    Mutant(
        "isinstance(key, list) and key and all(map(is_label, key))",
        "key and all(map(is_label, key))",
    ),
    Mutant("machine is None or is_label(machine)", "True"),
    Mutant("is_int(count) and 0 <= count < _MOST", "is_int(count) and count < _MOST"),
    Mutant("is_int(count) and 0 <= count < _MOST", "is_int(count) and 0 <= count"),
    Mutant("    if shape is None and dtype is None:\n", "    if shape is None or dtype is None:\n"),
    Mutant("is_int(length) and length > 0", "is_int(length) and length >= 0"),
    Mutant("0 < len(shape) <= _MOST_AXES", "len(shape) <= _MOST_AXES"),
    Mutant("0 < len(shape) <= _MOST_AXES", "0 < len(shape)"),
    Mutant(" and _DTYPE.fullmatch(dtype):", ":"),
    Mutant("_DTYPE.fullmatch(dtype)", "_DTYPE.match(dtype)"),
    Mutant(
        "        except TypeError:\n            pass\n",
        "        except KeyError:\n            pass\n",
    ),
    Mutant(
        "        require_fit(about)\n",
        "",
        equivalent="the pool asks once more, before it takes anything",
    ),
    Mutant("            except NoPointError:  #", "            except ZeroDivisionError:  #"),
    Mutant("                unfit.append(str(error))\n", "                pass\n"),
    Mutant("            if point.number in numbers:", "            if False:"),
    Mutant("            numbers.add(point.number)\n", ""),
    Mutant(
        "                refused[refusal] += 1\n                continue\n",
        "                refused[refusal] += 1\n",
    ),
    Mutant("                refused[refusal] += 1\n", ""),
    Mutant(
        "deque(maxlen=capacity)",
        "deque()",
        equivalent="the pool's buckets drop the older ones, which then count as overwritten",
    ),
    Mutant(
        "max(about.points - len(numbers) - len(unfit), 0)",
        "about.points - len(numbers) - len(unfit)",
    ),
    Mutant(
        "max(about.points - len(numbers) - len(unfit), 0)", "max(about.points - len(numbers), 0)"
    ),
    Mutant(
        "if unfit or lost or reader.damaged or not reader.complete:",
        "if lost or reader.damaged or not reader.complete:",
    ),
    Mutant(
        "if unfit or lost or reader.damaged or not reader.complete:",
        "if unfit or reader.damaged or not reader.complete:",
    ),
    Mutant(
        "if unfit or lost or reader.damaged or not reader.complete:",
        "if unfit or lost or not reader.complete:",
    ),
    Mutant(
        "if unfit or lost or reader.damaged or not reader.complete:",
        "if unfit or lost or reader.damaged:",
    ),
    Mutant("            if not numbers and about.points:\n", "            if False:\n"),
    Mutant("            if not numbers and about.points:\n", "            if not numbers:\n"),
    Mutant("max([about.next_name, *(number + 1 for number in numbers)])", "about.next_name"),
    Mutant(
        "max([about.next_name, *(number + 1 for number in numbers)])",
        "max([about.next_name, *numbers])",
    ),
    Mutant("    if StackFormat.of(decoded.stack) != about.stack:\n", "    if False:\n"),
    Mutant("    if decoded.number >= _MOST:\n", "    if False:\n"),
    Mutant(
        "if not (is_int(steps_used) and 0 <= steps_used < 2**63):", "if not is_int(steps_used):"
    ),
    Mutant("decoded.about if isinstance(decoded.about, dict) else {}", "decoded.about"),
    Mutant('markers.checked(filed.get("values"))', 'filed.get("values")'),
]

_POINT = [
    Mutant(
        'view.format.lstrip("@=<>!") not in ("B", "b", "c")', 'view.format not in ("B", "b", "c")'
    ),
    Mutant('view.format.lstrip("@=<>!") not in ("B", "b", "c")', "False"),
    Mutant(
        "    except (TypeError, ValueError):  # no buffer", "    except TypeError:  # no buffer"
    ),
    Mutant(
        "    except (TypeError, ValueError):  # not contiguous",
        "    except ValueError:  # not contiguous",
    ),
    Mutant('return view.cast("B")', 'return view.cast("B")[:]', equivalent="another view"),
    Mutant("    if frame_stack is None:\n", "    if False:\n"),
    Mutant(
        "    except ValueError as error:\n        raise ShapeError",
        "    except KeyError as error:\n        raise ShapeError",
    ),
    Mutant('stack.dtype.kind not in "buif"', 'stack.dtype.kind not in "uif"'),
    Mutant('stack.dtype.kind not in "buif"', 'stack.dtype.kind not in "buifc"'),
    Mutant("if not stack.size or not stack.ndim:", "if not stack.size:"),
    Mutant("if not stack.size or not stack.ndim:", "if not stack.ndim:"),
    Mutant('if not hasattr(_encoders, "encoder"):', "if True:", equivalent="slower"),
    Mutant(
        '{"values": dict(values), "steps_used": steps_used}',
        '{"values": dict(values), "steps_used": 0}',
    ),
    Mutant("    if record.size > RECORD_LIMIT:\n", "    if False:\n", open="a point of 1 GiB"),
    Mutant("    if not any(found.values()):\n", "    if False:\n"),
    Mutant("    if not any(found.values()):\n", "    if not all(found.values()):\n"),
    Mutant("if len(stems) == 1 else None", "if stems else None"),
    Mutant("_NAME.fullmatch(stems.pop())", "_NAME.match(stems.pop())"),
    Mutant(" or any(len(names) != 1 for names in found.values()):", ":"),
    Mutant('name.startswith("points/") and ', ""),
    Mutant(
        "members_of(record if isinstance(record, bytes) else decode(record))",
        "members_of(decode(record))",
    ),
    Mutant("([0-9]{12,18})", "([0-9]{12})"),
]

_MARKER = [
    Mutant("return -(2**63) <= value < 2**63", "return -(2**63) <= value <= 2**63"),
    Mutant("return -(2**63) <= value < 2**63", "return -(2**63) < value < 2**63"),
    Mutant("if not isinstance(value, str) or not value:", "if not isinstance(value, str):"),
    Mutant("    except UnicodeEncodeError:  #", "    except KeyError:  #"),
    Mutant(
        "dict.fromkeys([*self._labels, *self._minimum, *self._maximum])",
        "dict.fromkeys([*self._labels, *self._minimum])",
    ),
    Mutant(
        "dict.fromkeys([*self._labels, *self._minimum, *self._maximum])",
        "dict.fromkeys([*self._minimum, *self._maximum])",
    ),
    Mutant("        if not isinstance(values, Mapping):\n", "        if False:\n"),
    Mutant("            if not is_label(label):\n", "            if False:\n"),
    Mutant("            if not is_int(value):\n", "            if False:\n"),
    Mutant("            if not is_int(value):\n", "            if not isinstance(value, int):\n"),
    Mutant("            if not fits_64_bits(value):\n", "            if False:\n"),
    Mutant("checked[label] = int(value)", "checked[label] = value"),
    Mutant("            if label not in checked:\n", "            if False:\n"),
    Mutant(
        "tuple(values[label] for label in self._labels)",
        "tuple(values[label] for label in sorted(self._labels))",
    ),
    Mutant("if values[label] < bound:", "if values[label] <= bound:"),
    Mutant("if values[label] > bound:", "if values[label] >= bound:"),
    Mutant('*(f"{label} > {bound}" for', '*(f"{label} >= {bound}" for'),
    Mutant(
        "dict(minimum_values), dict(maximum_values)", "dict(maximum_values), dict(minimum_values)"
    ),
]

_CONFIGURATION = [
    Mutant("return int(value) if is_int(value) else value", "return value"),
    Mutant("return tuple(value) if isinstance(value, list) else value", "return value"),
    Mutant("{label: _int(bound) for label, bound in value.items()}", "value"),
    Mutant(
        "        self._bounds = dict(bounds)\n",
        "        self._bounds = bounds\n",
        equivalent="it is given a dict that nobody else has",
    ),
    Mutant(
        "hash(frozenset(self._bounds.items()))",
        "hash(frozenset(self._bounds))",
        equivalent="more of them have one hash, and equality tells them apart",
    ),
    Mutant(
        "return float(value) if is_number(value) and abs(value) <= 1 else value", "return value"
    ),
    Mutant("if not (is_count(value) and value < 2**63):", "if not is_int(value):"),
    Mutant("if not (is_count(value) and value < 2**63):", "if not is_count(value):"),
    Mutant(
        "if not (is_int(value) and 0 <= value < 2**63):",
        "if not (is_int(value) and 0 < value < 2**63):",
    ),
    Mutant("if not (is_int(value) and 0 <= value < 2**63):", "if not is_int(value):"),
    Mutant("    if not isinstance(value, bool):\n", "    if value not in (True, False):\n"),
    Mutant("    if not value:\n", "    if False:\n"),
    Mutant(
        "        _check_label(instance, attribute, value, label)\n    if len",
        "        pass\n    if len",
    ),
    Mutant("    if len(set(value)) < len(value):\n", "    if False:\n"),
    Mutant("if not (is_int(bound) and fits_64_bits(bound)):", "if not is_int(bound):"),
    Mutant("if not (is_int(bound) and fits_64_bits(bound)):", "if not fits_64_bits(bound):"),
    Mutant(
        "    _check_bounds(instance, attribute, value)\n    for label, lowest",
        "    for label, lowest",
    ),
    Mutant(
        "if label in value and lowest > value[label]:",
        "if label in value and lowest >= value[label]:",
    ),
    Mutant("if label in value and lowest > value[label]:", "if False:"),
    Mutant(
        'isinstance(value, str) and value in ("uniform", "failure_rate")', "isinstance(value, str)"
    ),
    Mutant(
        'isinstance(value, str) and value in ("uniform", "failure_rate")',
        'value in ("uniform", "failure_rate")',
    ),
    Mutant("is_number(value) and 0.0 < value <= 1.0", "is_number(value) and 0.0 <= value <= 1.0"),
    Mutant("is_number(value) and 0.0 < value <= 1.0", "is_number(value) and 0.0 < value < 1.0"),
    Mutant("default=100,", "default=10,"),
    Mutant("default=8,", "default=16,"),
    Mutant("default=3,", "default=4,"),
    Mutant("default=0.1,", "default=0.01,"),
    Mutant('default="uniform"', 'default="failure_rate"'),
    Mutant("default=False, validator=_check_flag", "default=True, validator=_check_flag"),
]

_SCHEDULE = [
    Mutant("0 <= self.steps < 2**63", "0 < self.steps < 2**63"),
    Mutant("0 <= self.steps < 2**63", "0 <= self.steps"),
    Mutant("start * (1.0 - share) + self.to * share", "start * share + self.to * (1.0 - share)"),
    Mutant("math.copysign(size, self.to)", "size"),
    Mutant("return min(max(value, min(start, self.to)), max(start, self.to))", "return value"),
    Mutant(
        "return min(max(value, min(start, self.to)), max(start, self.to))",
        "return min(max(value, start), self.to)",
    ),
    Mutant('if piece.shape == "exponential" and not _same_sign(start, piece.to):', "if False:"),
    Mutant(
        "zip(self.pieces, self.knots, strict=False)",
        "zip(self.pieces, self.knots[1:], strict=False)",
    ),
    Mutant('self._then("hold", self.last, steps)', 'self._then("hold", self.start, steps)'),
    Mutant("self.pieces[-1].to if self.pieces", "self.pieces[0].to if self.pieces"),
    Mutant("knots[-1][0] + piece.steps", "piece.steps"),
    Mutant(
        "            if step < before + piece.steps:\n",
        "            if step <= before + piece.steps:\n",
    ),
    Mutant("inside / piece.steps) if inside > 0 else start", "inside / piece.steps)"),
    Mutant(
        "start, before = piece.to, before + piece.steps", "start, before = piece.to, piece.steps"
    ),
    Mutant(
        "start, before = piece.to, before + piece.steps",
        "start, before = start, before + piece.steps",
    ),
    Mutant("-ROUNDING <= value <= 1.0 + ROUNDING", "0.0 <= value <= 1.0"),
    Mutant("-ROUNDING <= value <= 1.0 + ROUNDING", "value <= 1.0 + ROUNDING"),
    Mutant("        step = _checked_step(step)\n        value", "        value"),
    Mutant("            if not 0.0 <= knot <= 1.0:\n", "            if not 0.0 <= knot:\n"),
    Mutant("            if not 0.0 <= knot <= 1.0:\n", "            if not 0.0 < knot < 1.0:\n"),
    Mutant("is_number(value) and 0.0 <= value <= 1.0:", "0.0 <= value <= 1.0:"),
    Mutant("is_number(value) and 0.0 <= value <= 1.0:", "is_number(value) and 0.0 <= value < 1.0:"),
    Mutant(" and not isinstance(value, type):", ":"),
    Mutant(
        '    except ValueError:\n        return f"a', '    except KeyError:\n        return f"a'
    ),
    Mutant("number is None or number < 0:", "number is None:"),
    Mutant("number is None or number < 0:", "number is None or number <= 0:"),
    Mutant(
        "    except OverflowError:\n        return None\n",
        "    except KeyError:\n        return None\n",
    ),
    Mutant("    if not finite:\n        return None\n", ""),
    Mutant("return int(value) if is_int(value) else float(value)", "return value"),
    Mutant("return int(value) if is_int(value) else float(value)", "return float(value)"),
    Mutant("or (start < 0.0 and to < 0.0)", ""),
    Mutant("(start > 0.0 and to > 0.0)", "(start >= 0.0 and to >= 0.0)"),
]

_GYM_RESTARTS = [
    Mutant("return _counts.setdefault(pool, _StepCount())", "return _StepCount()"),
    Mutant(
        "        with self._lock:\n            self._steps += 1\n",
        "        self._steps += 1\n",
        open="two threads at one moment",
    ),
    Mutant("            if not callable(value):\n", "            if False:\n"),
    Mutant("if (to_stack is None) != (from_stack is None):", "if False:"),
    Mutant("if to_stack is None and env.observation_space.shape is None:", "if False:"),
    Mutant("if max_restart_steps is not None and not is_count(max_restart_steps):", "if False:"),
    Mutant("plain=to_stack is None)", "plain=True)"),
    Mutant("restack or _restack_of(env, plain=to_stack is None)", "restack"),
    Mutant("self._step = self._count if step is None else step", "self._step = self._count"),
    Mutant(
        "        draws, options = _take_option(options)\n        self._abandon()\n",
        "        draws, options = _take_option(options)\n",
    ),
    Mutant(
        "        draws, options = _take_option(options)\n        self._abandon()\n",
        "        self._abandon()\n        draws, options = _take_option(options)\n",
    ),
    Mutant(
        "        obs, info = self.env.reset(seed=seed, options=options)\n",
        "        obs, info = self.env.reset(options=options)\n",
    ),
    Mutant(
        "        obs, info = self.env.reset(seed=seed, options=options)\n",
        "        obs, info = self.env.reset(seed=seed)\n",
    ),
    Mutant(
        "            self._rng = np.random.default_rng(np.random.SeedSequence(seed, "
        "spawn_key=(1,)))\n",
        "            pass\n",
    ),
    Mutant("        self._taken = self._used = 0\n", "        self._taken = 0\n"),
    Mutant("        self._taken = self._used = 0\n", "        self._used = 0\n"),
    Mutant("self._pool.draw(self._step()) if draws else None", "self._pool.draw(self._step())"),
    Mutant(
        "self._pool.draw(self._step()) if draws else None", "self._pool.draw(0) if draws else None"
    ),
    Mutant(
        "            except BaseException:\n"
        "                self._abandon()\n"
        "                raise\n",
        "            except KeyError:\n                self._abandon()\n                raise\n",
    ),
    Mutant("        self._playing = True\n        return obs", "        return obs"),
    Mutant("        self._count.add()\n        if", "        if"),
    Mutant("        if not self._playing:  #", "        if False:  #"),
    Mutant("        self._taken += 1\n", ""),
    Mutant("self._taken >= limit:", "self._taken > limit:"),
    Mutant(
        "if restart is not None and limit is not None and self._taken",
        "if limit is not None and self._taken",
    ),
    Mutant(
        "            if restart is not None:\n"
        "                self._pool.reached(restart, values)\n",
        "",
    ),
    Mutant(
        "            if not over:\n                self._pool",
        "            if True:\n                self._pool",
    ),
    Mutant("steps_used=self._used + self._taken", "steps_used=self._taken"),
    Mutant("                    restart=restart,\n", ""),
    Mutant(
        "            self._playing, self._restart = False, None\n",
        "            self._restart = None\n",
    ),
    Mutant(
        "            self._playing, self._restart = False, None\n",
        "            self._playing = False\n",
    ),
    Mutant("timed_out=not terminated", "timed_out=truncated"),
    Mutant("timed_out=not terminated", "timed_out=terminated"),
    Mutant(", steps=self._taken)", ")"),
    Mutant('info = {**info, "restart": _described(restart)}', "pass"),
    Mutant(
        'info = {**info, "restart": _described(restart)}', 'info["restart"] = _described(restart)'
    ),
    Mutant("        self._abandon()\n        super().close()\n", "        super().close()\n"),
    Mutant("stack = np.array(restart.frame_stack)\n", "stack = restart.frame_stack\n"),
    Mutant("            self._check_stack(stack, restart)\n", "            pass\n"),
    Mutant("        self._load(restart.snapshot)\n", ""),
    Mutant(
        "        self._load(restart.snapshot)\n"
        "        if self._reseed is not None:\n"
        "            self._reseed(int(self._rng.integers(2**31)))\n",
        "        if self._reseed is not None:\n"
        "            self._reseed(int(self._rng.integers(2**31)))\n"
        "        self._load(restart.snapshot)\n",
    ),
    Mutant(
        "            self._restack(np.array(restart.frame_stack))\n",
        "            self._restack(stack)\n",
    ),
    Mutant("        self._used = restart.steps_used\n", ""),
    Mutant("        if stack.shape != space.shape:\n", "        if False:\n"),
    Mutant("        if stack.dtype != space.dtype:\n", "        if False:\n"),
    Mutant("    if not isinstance(draws, bool):\n", "    if False:\n"),
    Mutant("    return draws, rest or None\n", "    return draws, options\n"),
    Mutant("            if changed_by is not None:\n", "            if False:\n"),
    Mutant("            changed_by = env.class_name()\n", "            pass\n"),
]

_INSPECTION = [
    Mutant('report |= {"damaged": sorted(reader.damaged)', 'report |= {"damaged": []'),
    Mutant('report["whole"] = report["problem"] is None', 'report["whole"] = True'),
    Mutant("                deque(_counted(reader, report), maxlen=0)\n", "                pass\n"),
    Mutant(
        "    except CheckpointError as error:\n        report",
        "    except KeyError as error:\n        report",
    ),
    Mutant("    if not keys:\n", "    if False:\n"),
    Mutant("min(len(keys), _SHEET_BUCKETS)", "len(keys)"),
    Mutant(".insert(0, frames(", ".append(frames("),
    Mutant(
        '        report["unpacked"] += record.size\n',
        '        report["unpacked"] += len(record.frame)\n',
    ),
    Mutant("deque(maxlen=_SHEET_POINTS)", "deque()"),
    Mutant("            if point.number in numbers:\n", "            if False:\n"),
    Mutant("        numbers.add(point.number)\n", ""),
    Mutant("bucket.newest.appendleft(number)", "bucket.newest.append(number)"),
    Mutant("for key, bucket in sorted(buckets.items())", "for key, bucket in buckets.items()"),
    Mutant(
        "max(0, about.points - len(numbers) - unreadable)", "max(0, about.points - len(numbers))"
    ),
    Mutant("        except NoPointError:  #", "        except ZeroDivisionError:  #"),
    Mutant('["its state is lost"] * (not control)', "[]"),
    Mutant("prioritized and parts.leaves < held", "parts.leaves < held"),
    Mutant("prioritized and parts.leaves < held", "prioritized and not parts.leaves"),
    Mutant("        and rows <= capacity\n", ""),
    Mutant("        and None not in columns\n", ""),
    Mutant("        and columns\n", ""),
    Mutant(
        "is_int(length) and length >= 0 for length in shape", "is_int(length) for length in shape"
    ),
    Mutant("len(shape) > MAX_AXES or ", ""),
    Mutant("    if nbytes >= 2**62:\n        return None\n", ""),
    Mutant('    if control.get("ere_enabled"):\n', '    if "ere_enabled" in control:\n'),
    Mutant("int(first) + (shape[0] if shape else 0)", "int(first) + shape[0]"),
    Mutant("[*sorted(spans), (held, held)]", "sorted(spans)"),
    Mutant("[*sorted(spans), (held, held)]", "[*spans, (held, held)]"),
    Mutant("        at = max(at, end)\n", "        at = end\n"),
    Mutant("if at < min(first, held):", "if at < first:"),
    Mutant("0 <= value < 2**64 else None", "value < 2**64 else None"),
    Mutant('    if not report["complete"]:\n', "    if False:\n"),
]

RESTART_PYTHON = {
    "cpreplay/restart/contents.py": _CONTENTS,
    "cpreplay/restart/buckets.py": _BUCKETS,
    "cpreplay/restart/draws.py": _DRAWS,
    "cpreplay/restart/pool.py": _POOL,
    "cpreplay/restart/pool_files.py": _POOL_FILES,
    "cpreplay/restart/files.py": _FILES,
    "cpreplay/restart/point.py": _POINT,
    "cpreplay/restart/marker.py": _MARKER,
    "cpreplay/restart/configuration.py": _CONFIGURATION,
    "cpreplay/schedule.py": _SCHEDULE,
    "cpreplay/gym/restarts.py": _GYM_RESTARTS,
    "cpreplay/inspection.py": _INSPECTION,
}
