"""Small ``.demo`` files, good and bad, which no code of the library has written."""

from pathlib import Path

FOLDER = Path(__file__).parent
