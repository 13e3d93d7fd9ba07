"""Writes girder.nes: a tiny NES game in hand-assembled 6502. README.md says how it is played.

python build_girder.py girder.nes
"""

from __future__ import annotations

import sys
from pathlib import Path

ORIGIN = 0xC000
PROGRAM_BYTES, TILE_BYTES = 16_384, 8_192

# Opcodes, by addressing mode: immediate, zero page, absolute, relative, or none.
IMMEDIATE = {
    "lda": 0xA9, "ldx": 0xA2, "ldy": 0xA0, "cmp": 0xC9, "cpx": 0xE0, "and": 0x29, "eor": 0x49,
    "adc": 0x69,
}  # fmt: skip
ZERO_PAGE = {
    "lda": 0xA5, "sta": 0x85, "cmp": 0xC5, "ora": 0x05, "inc": 0xE6, "dec": 0xC6, "rol": 0x26,
}  # fmt: skip
ABSOLUTE = {"lda": 0xAD, "sta": 0x8D, "bit": 0x2C, "jmp": 0x4C}
INDEXED = {"sta_zero_page": 0x95, "sta": 0x9D, "lda": 0xBD}  # by x
BRANCH = {"bne": 0xD0, "beq": 0xF0, "bcc": 0x90, "bcs": 0xB0, "bpl": 0x10}
PLAIN = {
    "sei": 0x78, "cld": 0xD8, "txs": 0x9A, "inx": 0xE8, "dex": 0xCA, "dey": 0x88, "tya": 0x98,
    "txa": 0x8A, "tax": 0xAA, "pha": 0x48, "pla": 0x68, "clc": 0x18, "sec": 0x38, "lsr": 0x4A,
    "asl": 0x0A, "rti": 0x40,
}  # fmt: skip

# Zero page.
LEVEL, X, LIVES, SCORE, RANDOM, OVER, STUCK, FRAME, PAD = range(0x10, 0x19)
# The machine's registers.
PPU_CONTROL, PPU_MASK, PPU_STATUS, PPU_SCROLL = 0x2000, 0x2001, 0x2002, 0x2005
PPU_ADDRESS, PPU_DATA, SPRITE_DMA, JOYPAD = 0x2006, 0x2007, 0x4014, 0x4016
SPRITES = 0x0200  # four bytes each: y, tile, attributes, x


class Assembler:
    """Bytes of code, and the labels that they branch to."""

    def __init__(self) -> None:
        self.code = bytearray()
        self.labels: dict[str, int] = {}
        self._relative: list[tuple[int, str]] = []
        self._absolute: list[tuple[int, str]] = []

    def label(self, name: str) -> None:
        self.labels[name] = ORIGIN + len(self.code)

    def plain(self, *names: str) -> None:
        self.code += bytes(PLAIN[name] for name in names)

    def immediate(self, name: str, value: int) -> None:
        self.code += bytes([IMMEDIATE[name], value])

    def zero_page(self, name: str, address: int) -> None:
        self.code += bytes([ZERO_PAGE[name], address])

    def absolute(self, name: str, address: int) -> None:
        self.code += bytes([ABSOLUTE[name], address & 0xFF, address >> 8])

    def indexed(self, name: str, address: int) -> None:
        self.code += bytes([INDEXED[name], address & 0xFF])
        if name != "sta_zero_page":
            self.code.append(address >> 8)

    def branch(self, name: str, label: str) -> None:
        self.code += bytes([BRANCH[name], 0])
        self._relative.append((len(self.code) - 1, label))

    def jump(self, label: str) -> None:
        self.absolute("jmp", 0)
        self._absolute.append((len(self.code) - 2, label))

    def load_indexed(self, label: str) -> None:
        self.indexed("lda", 0)
        self._absolute.append((len(self.code) - 2, label))

    def store(self, value: int, *addresses: int) -> None:
        """Put a number into registers or memory beyond the zero page."""
        self.immediate("lda", value)
        for address in addresses:
            self.absolute("sta", address)

    def store_zero_page(self, value: int, address: int) -> None:
        self.immediate("lda", value)
        self.zero_page("sta", address)

    def ppu_address(self, address: int) -> None:
        self.store(address >> 8, PPU_ADDRESS)
        self.store(address & 0xFF, PPU_ADDRESS)

    def finished(self) -> bytes:
        """The code with its labels filled in."""
        for at, label in self._relative:
            distance = self.labels[label] - (ORIGIN + at + 1)
            if not -128 <= distance <= 127:
                raise ValueError(f"{label} is {distance} bytes away, too far for a branch")
            self.code[at] = distance & 0xFF
        for at, label in self._absolute:
            self.code[at : at + 2] = self.labels[label].to_bytes(2, "little")
        return bytes(self.code)


def reset(a: Assembler) -> None:
    """Clear the memory, draw the girder, and wait for frames for ever."""
    a.label("reset")
    a.plain("sei", "cld")
    a.immediate("ldx", 0xFF)
    a.plain("txs")
    a.store(0, PPU_CONTROL)
    a.absolute("sta", PPU_MASK)
    a.label("first frame")
    a.absolute("bit", PPU_STATUS)
    a.branch("bpl", "first frame")
    a.immediate("lda", 0)
    a.immediate("ldx", 0)
    a.label("clear")
    a.indexed("sta_zero_page", 0x00)
    a.plain("inx")
    a.branch("bne", "clear")
    a.immediate("lda", 0xFF)
    a.immediate("ldx", 0)
    a.label("hide sprites")
    a.indexed("sta", SPRITES)
    a.plain("inx")
    a.branch("bne", "hide sprites")
    a.label("second frame")
    a.absolute("bit", PPU_STATUS)
    a.branch("bpl", "second frame")

    a.ppu_address(0x3F00)
    a.immediate("ldx", 0)
    a.label("palette")
    a.load_indexed("palette data")
    a.absolute("sta", PPU_DATA)
    a.plain("inx")
    a.immediate("cpx", 32)
    a.branch("bne", "palette")

    a.ppu_address(0x2000)
    a.immediate("ldx", 4)
    a.label("background page")
    a.immediate("ldy", 0)
    a.label("background")
    a.plain("tya")
    a.immediate("and", 0x23)
    a.plain("lsr")
    a.immediate("adc", 0)
    a.immediate("and", 3)
    a.absolute("sta", PPU_DATA)
    a.plain("dey")
    a.branch("bne", "background")
    a.plain("dex")
    a.branch("bne", "background page")

    a.store_zero_page(3, LIVES)
    a.store_zero_page(0x5A, RANDOM)
    a.store(0, PPU_SCROLL, PPU_SCROLL)
    a.store(0x1E, PPU_MASK)
    a.store(0x80, PPU_CONTROL)
    a.label("main")
    a.jump("main")


def picture(a: Assembler) -> None:
    """Send the sprites; the background's colour is the level, its scroll half of x."""
    a.store(SPRITES >> 8, SPRITE_DMA)
    a.ppu_address(0x3F00)
    a.zero_page("lda", LEVEL)
    a.immediate("and", 0x0F)
    a.plain("clc")
    a.immediate("adc", 0x01)
    a.absolute("sta", PPU_DATA)
    a.store(0, PPU_ADDRESS, PPU_ADDRESS)
    a.zero_page("lda", X)
    a.plain("lsr")
    a.absolute("sta", PPU_SCROLL)
    a.store(0, PPU_SCROLL)


def pad_and_chance(a: Assembler) -> None:
    """Read the pad, A in the highest bit; step the random byte, twice where right is held."""
    a.store(1, JOYPAD)
    a.store(0, JOYPAD)
    a.immediate("ldx", 8)
    a.label("read")
    a.absolute("lda", JOYPAD)
    a.plain("lsr")
    a.zero_page("rol", PAD)
    a.plain("dex")
    a.branch("bne", "read")
    a.zero_page("lda", RANDOM)
    shift_random(a, "no feedback")
    a.zero_page("lda", PAD)
    a.immediate("and", 1)
    a.branch("beq", "not right")
    a.zero_page("lda", RANDOM)
    shift_random(a, "no second feedback")
    a.label("not right")


def shift_random(a: Assembler, label: str) -> None:
    """One step of a Galois register of eight bits, whose period is 255."""
    a.plain("lsr")
    a.branch("bcc", label)
    a.immediate("eor", 0xB8)
    a.label(label)
    a.zero_page("sta", RANDOM)


def rules(a: Assembler) -> None:
    """What happens in a frame."""
    a.zero_page("lda", OVER)
    a.zero_page("ora", STUCK)
    a.branch("bne", "draw")

    # The dead end: up at level 2 with 96 <= x < 112.
    a.zero_page("lda", PAD)
    a.immediate("and", 0x08)
    a.branch("beq", "not up")
    a.zero_page("lda", LEVEL)
    a.immediate("cmp", 2)
    a.branch("bne", "not up")
    a.zero_page("lda", X)
    a.immediate("cmp", 96)
    a.branch("bcc", "not up")
    a.immediate("cmp", 112)
    a.branch("bcs", "not up")
    a.store_zero_page(1, STUCK)
    a.jump("draw")
    a.label("not up")

    # The hazard: without A, while the random byte is at most 2 * level + 1.
    a.zero_page("lda", PAD)
    a.immediate("and", 0x80)
    a.branch("bne", "safe")
    a.zero_page("lda", LEVEL)
    a.plain("asl", "sec")
    a.immediate("adc", 0)
    a.zero_page("cmp", RANDOM)
    a.branch("bcc", "safe")
    a.store_zero_page(0, X)
    a.zero_page("dec", LIVES)
    a.branch("bne", "draw")
    a.store_zero_page(1, OVER)
    a.jump("draw")
    a.label("safe")

    a.zero_page("lda", PAD)
    a.immediate("and", 1)
    a.branch("beq", "no step right")
    a.zero_page("inc", X)
    a.zero_page("inc", X)
    a.label("no step right")
    a.zero_page("lda", PAD)
    a.immediate("and", 2)
    a.branch("beq", "no step left")
    a.zero_page("lda", X)
    a.branch("beq", "no step left")
    a.zero_page("dec", X)
    a.label("no step left")
    a.zero_page("lda", X)
    a.immediate("cmp", 240)
    a.branch("bcc", "draw")
    a.store_zero_page(0, X)
    a.zero_page("inc", LEVEL)
    a.zero_page("inc", SCORE)


def sprites(a: Assembler) -> None:
    """The player in two tiles, the lives, and the random byte."""
    a.label("draw")
    a.store(120, SPRITES)
    a.store(2, SPRITES + 1)
    a.zero_page("lda", STUCK)
    a.absolute("sta", SPRITES + 2)
    a.zero_page("lda", X)
    a.absolute("sta", SPRITES + 3)
    a.store(128, SPRITES + 4)
    a.store(3, SPRITES + 5)
    a.store(0, SPRITES + 6)
    a.zero_page("lda", X)
    a.absolute("sta", SPRITES + 7)
    a.zero_page("lda", LIVES)
    a.plain("asl", "asl", "asl")
    a.absolute("sta", SPRITES + 11)
    a.store(20, SPRITES + 8)
    a.store(3, SPRITES + 9)
    a.zero_page("lda", RANDOM)
    a.absolute("sta", SPRITES + 15)
    a.store(60, SPRITES + 12)
    a.store(1, SPRITES + 13)


def program() -> bytes:
    """The cartridge's 16 KB of code, with the three vectors at its end."""
    a = Assembler()
    reset(a)
    a.label("frame")
    a.plain("pha", "txa", "pha")
    a.zero_page("inc", FRAME)
    picture(a)
    pad_and_chance(a)
    rules(a)
    sprites(a)
    a.plain("pla", "tax", "pla", "rti")
    a.label("interrupt")
    a.plain("rti")
    a.label("palette data")
    a.code += bytes([0x0F, 0x17, 0x27, 0x30] * 4 + [0x0F, 0x16, 0x2A, 0x30] * 4)
    code = a.finished().ljust(PROGRAM_BYTES - 6, b"\0")
    return code + b"".join(
        a.labels[vector].to_bytes(2, "little") for vector in ("frame", "reset", "interrupt")
    )


def tiles() -> bytes:
    """Four tiles of eight rows, the last of them in two planes that differ."""
    plain = [
        bytes(8),
        bytes.fromhex("183c7effff7e3c18"),
        bytes.fromhex("3c7e5a7e3c187e99"),
        bytes.fromhex("ff81bda5a5bd81ff"),
    ]
    second = [*plain[:3], bytes(row ^ 0x3C for row in plain[3])]
    return b"".join(a + b for a, b in zip(plain, second, strict=True)).ljust(TILE_BYTES, b"\0")


def rom() -> bytes:
    """The cartridge: a header, one bank of code, one of tiles."""
    return b"NES\x1a" + bytes([1, 1, 1, 0]) + bytes(8) + program() + tiles()


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else "girder.nes").write_bytes(rom())
