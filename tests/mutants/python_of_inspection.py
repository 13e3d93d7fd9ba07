"""Mistakes in what the command line says and draws. `python` has them in its table."""

from tests.mutants.mutant import Mutant

INSPECTION_PYTHON_TESTS = {
    "cpreplay/contact_sheet.py": ("inspect",),
    "cpreplay/inspection_text.py": ("inspect",),
    "cpreplay/__main__.py": ("main", "inspect"),
}

_CONTACT_SHEET = [
    # Frames
    Mutant("max(1, _SIDE // 2 // max(levels.shape[1:3]))", "1"),
    Mutant("max(1, _SIDE // 2 // max(levels.shape[1:3]))", "_SIDE // 2 // max(levels.shape[1:3])"),
    Mutant("np.moveaxis(stack, 2, 0) if shape[2] < min(shape[:2]) else stack", "stack"),
    Mutant("np.moveaxis(stack, 2, 0) if shape[2]", "np.moveaxis(stack, 2, 1) if shape[2]"),
    Mutant("(stack.ndim == 3 and shape[2] == 3)", "False"),
    Mutant("        if stack.ndim == 4 and shape[3] == 3:\n            return stack\n", ""),
    Mutant("np.moveaxis(stack, 1, 3)", "np.moveaxis(stack, 1, 2)"),
    Mutant("    if stack.size:\n", "    if True:\n"),
    Mutant("math.ceil(max(stack.shape[1:3]) / _SIDE)", "max(1, max(stack.shape[1:3]) // _SIDE)"),
    Mutant("stack[-_FRAMES:, ::step, ::step]", "stack[:_FRAMES, ::step, ::step]"),
    Mutant("stack[-_FRAMES:, ::step, ::step]", "stack[-_FRAMES:, ::step, :]"),
    # Shades
    Mutant("    if stack.dtype == np.uint8:\n        return stack\n", ""),
    Mutant("    values[~np.isfinite(values)] = 0.0\n", ""),
    Mutant('stack.dtype.kind == "b" or ', ""),
    Mutant("low >= 0.0 and high <= 1.0", "high <= 1.0"),
    Mutant("low >= 0.0 and high <= 1.0", "low >= 0.0"),
    Mutant("high / 2 - low / 2 or 1.0", "high / 2 - low / 2"),
    Mutant("span = high / 2 - low / 2 or 1.0  #", "span = (high - low) / 2 or 1.0  #"),
    Mutant("np.rint((values / 2", "np.floor((values / 2"),
    # The sheet
    Mutant("_written(label[:60])", "_written(label)"),
    Mutant('"1": "26227"', '"1": "26226"'),
    Mutant("lines[line, 4 * at : 4 * at + 3]", "lines[line, 3 * at : 3 * at + 3]"),
    Mutant(
        "picture.shape[1] + gap for picture in pictures) - gap",
        "picture.shape[1] + gap for picture in pictures)",
    ),
    Mutant("        at += picture.shape[1] + gap\n", "        at += picture.shape[1]\n"),
    # The file
    Mutant(
        "lines[:, 1:] = picture.reshape(height, -1)", "lines[:, :-1] = picture.reshape(height, -1)"
    ),
    Mutant('">IIBBBBB", width, height, 8', '">IIBBBBB", height, width, 8'),
    Mutant("zlib.crc32(kind + data)", "zlib.crc32(data)"),
]

_INSPECTION_TEXT = [
    Mutant('    if report.get("records"):\n', "    if False:\n"),
    Mutant('report["unpacked"] / report["bytes"]', 'report["bytes"] / report["unpacked"]'),
    Mutant('_shown(report["problem"], len(report["problem"]))', '_shown(report["problem"])'),
    Mutant('_shown(report["problem"], len(report["problem"]))', 'report["problem"]'),
    Mutant("if c.isprintable() else ascii(c)[1:-1]", "if True else ascii(c)[1:-1]"),
    Mutant("value[:most])", "value)"),
    Mutant(' + "..." * (len(value) > most)', ""),
    Mutant("(len(value) > most)", "(len(value) >= most)"),
    Mutant('if column["stored"] == column["dtype"] else', "if True else"),
    Mutant('_shown(value) if name == "name" else', "_shown(value) if False else"),
    Mutant('if points["machine"] else "not said"', 'if True else "not said"'),
    Mutant('if stack else "none"', 'if True else "none"'),
    Mutant('    if value is None:\n        return "unknown"\n', ""),
    Mutant('", ".join(_facts(pending)) if pending else', '", ".join(_facts(pending)) if True else'),
]

_MAIN = [
    Mutant('return 0 if report["whole"] else 1', "return 0"),
    Mutant("    return 2\n", "    return 1\n"),
    Mutant('        return _failed("inspect", error)\n', "        raise\n"),
    Mutant("        except (ReplayError, OSError) as error:", "        except OSError as error:"),
    Mutant(
        "        except (ReplayError, OSError) as error:", "        except ReplayError as error:"
    ),
    Mutant(
        "        if not options.json:\n            _print", "        if True:\n            _print"
    ),
    Mutant("        buffer.check()\n", "        assert 0\n"),
    Mutant(
        "    except Exception as error:  # whatever", "    except OSError as error:  # whatever"
    ),
    Mutant('return "not installed" if name == "CuPy" else "none"', 'return "none"'),
    Mutant('", ".join(value) or "missing"', '", ".join(value)'),
    Mutant("reason is None, ", "True, "),
]

INSPECTION_PYTHON = {
    "cpreplay/contact_sheet.py": _CONTACT_SHEET,
    "cpreplay/inspection_text.py": _INSPECTION_TEXT,
    "cpreplay/__main__.py": _MAIN,
}
