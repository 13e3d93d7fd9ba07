"""What a mutant is."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """One mistake: in a file where ``text`` stands, exactly once, ``replacement`` stands instead.

    ``equivalent`` says why no test can tell the two apart, where that is so; ``open`` why the suite
    has no test that does.
    """

    text: str
    replacement: str
    equivalent: str = ""
    open: str = ""

    def applied(self, source: str) -> str:
        """The source with the mistake in it."""
        found = source.count(self.text)
        if found != 1:
            raise LookupError(f"{found} times in the file, and once is wanted: {self.text!r}")
        return source.replace(self.text, self.replacement)

    @property
    def label(self) -> str:
        """Both texts on one line."""
        old, new = (" ".join(text.split()) for text in (self.text, self.replacement))
        return f"{old}  ->  {new or '(nothing)'}"
