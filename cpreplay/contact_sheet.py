"""Frame stacks side by side on one sheet, and the sheet as a PNG file; with NumPy and zlib alone.

No plotting library is asked for: a checkpoint is looked at where it was written, and a machine that
trains has often none.
"""

import math
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.errors import ShapeError

Picture = NDArray[np.uint8]  # (height, width, 3)

# A longer side than this is drawn with every second, third... pixel; one of less than half, larger.
_SIDE = 96
_FRAMES = 8  # of a stack, the last
_GAP, _GAP_OF_STACKS = 2, 10
_PAPER, _INK = 40, 220

# Digits of 3 by 5 dots, a number of three bits for each line.
_GLYPHS = {
    "0": "75557", "1": "26227", "2": "71747", "3": "71717", "4": "55711", "5": "74717",
    "6": "74757", "7": "71111", "8": "75757", "9": "75717", "-": "00700", ",": "00024",
}  # fmt: skip
_DOT = 2


def contact_sheet(rows: Sequence[tuple[str, Sequence[Sequence[Picture]]]]) -> Picture:
    """Draw frame stacks, a row for each group.

    Parameters
    ----------
    rows : sequence of (str, sequence of stacks)
        What is written over a row, of the characters ``0123456789-,`` (others are left blank, and
        so is what follows the sixtieth), and what `frames` gave for each stack in it.

    Returns
    -------
    ndarray of uint8, shape (height, width, 3)
    """
    strips = [
        strip
        for label, stacks in rows
        for strip in (
            _written(label[:60]),
            _beside([_beside(stack, _GAP) for stack in stacks], _GAP_OF_STACKS),
        )
    ]
    return _below(strips)


def frames(stack: NDArray[Any]) -> list[Picture]:
    """The last frames of a stack, as pictures.

    Parameters
    ----------
    stack : ndarray of numbers or bools
        One frame: (height, width), or (height, width, 3) in colour. A stack of them, with its axis
        before or after (the shortest of the three is taken for it); in colour, (stack, height,
        width, 3) or (stack, 3, height, width). Of uint8 as it is to be seen, else from the smallest
        value (black) to the largest (white), or from 0 to 1 where all floats are in there.

    Raises
    ------
    ShapeError
        Another shape.
    """
    shown = _few_pixels(_by_frame(stack))
    levels = _levels(shown)
    if levels.ndim == 3:
        levels = np.broadcast_to(levels[..., None], (*levels.shape, 3))
    larger = max(1, _SIDE // 2 // max(levels.shape[1:3]))
    return list(levels.repeat(larger, axis=1).repeat(larger, axis=2))


def png(picture: Picture) -> bytes:
    """A picture as the bytes of a PNG file."""
    height, width = picture.shape[:2]
    lines = np.zeros((height, 1 + 3 * width), np.uint8)  # each begins with its filter: none
    lines[:, 1:] = picture.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(lines.data)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def _by_frame(stack: NDArray[Any]) -> NDArray[Any]:
    """A view as (frame, height, width) or (frame, height, width, 3)."""
    shape = stack.shape
    if stack.size:
        if stack.ndim == 2 or (stack.ndim == 3 and shape[2] == 3):
            return stack[None]
        if stack.ndim == 3:
            return np.moveaxis(stack, 2, 0) if shape[2] < min(shape[:2]) else stack
        if stack.ndim == 4 and shape[3] == 3:
            return stack
        if stack.ndim == 4 and shape[1] == 3:
            return np.moveaxis(stack, 1, 3)
    raise ShapeError(
        f"an array of shape {shape} is no stack of frames to draw; (stack, height, width) is one"
    )


def _few_pixels(stack: NDArray[Any]) -> NDArray[Any]:
    step = math.ceil(max(stack.shape[1:3]) / _SIDE)
    return stack[-_FRAMES:, ::step, ::step]


def _levels(stack: NDArray[Any]) -> NDArray[np.uint8]:
    """Numbers as shades; what is no finite number is black."""
    if stack.dtype == np.uint8:
        return stack
    with np.errstate(all="ignore"):  # of longer floats than float64
        values = stack.astype(np.float64)
    values[~np.isfinite(values)] = 0.0
    low, high = float(values.min()), float(values.max())
    if stack.dtype.kind == "b" or (stack.dtype.kind == "f" and low >= 0.0 and high <= 1.0):
        low, high = 0.0, 1.0
    span = high / 2 - low / 2 or 1.0  # halved, so that it is finite
    shades: NDArray[np.uint8] = np.rint((values / 2 - low / 2) / span * 255).astype(np.uint8)
    return shades


def _written(text: str) -> Picture:
    lines = np.zeros((5, 4 * max(1, len(text))), np.uint8)
    for at, character in enumerate(text):
        for line, bits in enumerate(_GLYPHS.get(character, "")):
            lines[line, 4 * at : 4 * at + 3] = [int(bit) for bit in f"{int(bits):03b}"]
    ink = (_PAPER + lines * (_INK - _PAPER)).repeat(_DOT, axis=0).repeat(_DOT, axis=1)
    return np.repeat(ink[..., None], 3, axis=2)


def _beside(pictures: Sequence[Picture], gap: int) -> Picture:
    """On one sheet from left to right."""
    height = max(picture.shape[0] for picture in pictures)
    width = sum(picture.shape[1] + gap for picture in pictures) - gap
    sheet = np.full((height, width, 3), _PAPER, np.uint8)
    at = 0
    for picture in pictures:
        sheet[: picture.shape[0], at : at + picture.shape[1]] = picture
        at += picture.shape[1] + gap
    return sheet


def _below(pictures: Sequence[Picture]) -> Picture:
    """On one sheet from the top down, with a margin."""
    turned = [np.swapaxes(picture, 0, 1) for picture in pictures]
    return np.pad(
        np.swapaxes(_beside(turned, _GAP_OF_STACKS), 0, 1),
        [(_GAP_OF_STACKS,) * 2, (_GAP_OF_STACKS,) * 2, (0, 0)],
        constant_values=_PAPER,
    )
