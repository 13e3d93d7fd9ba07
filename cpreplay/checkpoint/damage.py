"""How damage to a file is said, in a sentence that stays short however much there is."""

from collections.abc import Iterable


def few(texts: list[str], most: int = 10) -> str:
    """The first of some texts, and how many more there are."""
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def damaged_records(numbers: Iterable[int]) -> str:
    """Which records are damaged, those that follow each other together."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    said = few([" to ".join(map(str, run)) for run in runs])
    alone = len(runs) == 1 and len(runs[0]) == 1
    return f"record {said} is damaged" if alone else f"records {said} are damaged"
