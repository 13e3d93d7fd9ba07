"""Tables as text, and figures as people read them."""

from collections.abc import Sequence


def aligned(title: str, lines: Sequence[Sequence[str]]) -> str:
    """Columns below each other, the first to the left, under a line; the first line is the head."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        "  ".join(
            cell.ljust(width) if number == 0 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    text.insert(1, "-" * max(map(len, text)))
    return "\n".join([f"\n{title}", *text])


def figures(number: float) -> str:
    """Three figures, or all of them before the point."""
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def megabytes(nbytes: float) -> str:
    """In units of a million bytes."""
    return figures(nbytes / 1e6)
