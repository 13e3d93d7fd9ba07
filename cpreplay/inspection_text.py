"""The report of a checkpoint file as lines to read."""

from typing import Any

from cpreplay.memory import format_bytes

Report = dict[str, Any]


def as_text(report: Report) -> str:
    """What `cpreplay.inspection.inspect_file` reports, as lines to read.

    Texts of the file are shown with escapes: they may hold what moves a terminal's cursor.
    """
    lines = [_shown(report["file"])]
    if "kind" in report:
        lines += [
            _line("kind", f"{_shown(report['kind'])}, version {report['version']}"),
            _line("written", f"{_shown(report['written'])}, by {_shown(report['library'])}"),
        ]
    size = format_bytes(report["bytes"])
    if report.get("records"):
        times = report["unpacked"] / report["bytes"]
        size += f"; unpacked {format_bytes(report['unpacked'])}, {times:.1f} times that"
    lines.append(_line("size", size))
    if "points" in report:
        lines += _lines_of_points(report["points"])
    if "replay" in report:
        lines += _lines_of_replay(report["replay"])
    if report["whole"]:
        return "\n".join([*lines, _line("whole", "yes, every checksum is right")])
    lines.append(_line("problem", _shown(report["problem"], len(report["problem"]))))
    if "points" in report:
        lines.append(_line("", "RestartPool.load takes the points that are whole"))
    if "replay" in report:
        lines.append(_line("", "load and resume refuse it; salvage takes the rows that are whole"))
    return "\n".join(lines)


def _lines_of_points(points: Report) -> list[str]:
    stack, buckets = points["stack"], points["buckets"]
    return [
        _line("points", f"{points['points']:,} in {len(buckets):,} buckets"),
        _line("draws", f"{points['draws']:,} so far"),
        _line("stack", f"{stack['dtype']} {_shape(stack['shape'])}" if stack else "none"),
        _line("machine", _shown(points["machine"]) if points["machine"] else "not said"),
        _line("key", ", ".join(map(_shown, points["key"]))),
        *(
            _line(
                f"  {_shape(bucket['key'])}",
                f"{bucket['points']:,} points, {format_bytes(bucket['unpacked'])}, "
                f"in the file {format_bytes(bucket['file_bytes'])}",
            )
            for bucket in buckets
        ),
    ]


def _lines_of_replay(replay: Report) -> list[str]:
    policy, pending = replay["policy"], replay["pending"]
    return [
        _line("rows", f"{replay['rows']:,} of {replay['capacity']:,}"),
        _line("added", _shown(replay["added"])),
        _line("draws", ", ".join(_facts(policy)) if policy else "unknown"),
        _line("generator", f"{_shown(replay['generator'])}, seed {_shown(replay['seed'])}"),
        _line("n-step", ", ".join(_facts(pending)) if pending else "no pending steps"),
        _line("columns", f"{len(replay['columns'])}"),
        *(
            _line(
                f"  {_shown(column['name'])}",
                f"{_stored(column)}, {format_bytes(column['unpacked'])}",
            )
            for column in replay["columns"]
        ),
    ]


def _line(name: str, value: str) -> str:
    return f"  {name:14} {value}"


def _stored(column: Report) -> str:
    as_other = "" if column["stored"] == column["dtype"] else f" stored as {column['stored']}"
    return f"{_shown(column['dtype'])} {_shape(column['shape'])}{as_other}"


def _facts(values: Report) -> list[str]:
    return [
        _shown(value) if name == "name" else f"{name} {_shown(value)}"
        for name, value in values.items()
    ]


def _shape(numbers: list[int]) -> str:
    return f"({', '.join(map(str, numbers))})"


def _shown(value: Any, most: int = 200) -> str:
    """A value on a line of text, with escapes for what would not be seen as it is."""
    if value is None:
        return "unknown"
    if not isinstance(value, str):
        return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in value[:most])
    return text + "..." * (len(value) > most)
