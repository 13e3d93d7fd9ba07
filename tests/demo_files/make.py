"""Make the ``.demo`` files, or check them: `python -m tests.demo_files.make [--check]`.

A witness independent of the library: it imports none of it, and packs each number by `struct`, from
the format's words. All little-endian: magic ``MRLDEMO1``; u32 version (1), u32 obs_dim, u32
act_dim, u64 rows, u32 episodes; then per row f32 obs[obs_dim], f32 action[act_dim], f32 reward,
f32 next_obs[obs_dim], f32 done (terminated only), u32 flags (bit 0: human intervention, bit 1: the
episode succeeded); then per episode u64 start, u64 length, u32 success.

A file that exists is never written again. Never delete one to make a test pass.
"""

import argparse
import math
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.demo_files import FOLDER

MAGIC = b"MRLDEMO1"
HUMAN, SUCCESS = 1, 2


@dataclass(frozen=True)
class Row:
    """One step."""

    obs: Sequence[float]
    action: Sequence[float]
    reward: float
    next_obs: Sequence[float]
    done: float = 0.0
    flags: int = 0


@dataclass(frozen=True)
class Episode:
    """One line of the table of episodes."""

    start: int
    length: int
    success: int = 0


def header(
    obs_dim: int, act_dim: int, rows: int, episodes: int, *, magic: bytes = MAGIC, version: int = 1
) -> bytes:
    return magic + struct.pack("<IIIQI", version, obs_dim, act_dim, rows, episodes)


def row_bytes(row: Row) -> bytes:
    numbers = [*row.obs, *row.action, row.reward, *row.next_obs, row.done]
    return struct.pack(f"<{len(numbers)}fI", *numbers, row.flags)


def demo_bytes(
    obs_dim: int, act_dim: int, rows: Sequence[Row], episodes: Sequence[Episode]
) -> bytes:
    """A whole file, whatever its numbers mean."""
    table = [struct.pack("<QQI", e.start, e.length, e.success) for e in episodes]
    start = header(obs_dim, act_dim, len(rows), len(episodes))
    return b"".join([start, *map(row_bytes, rows), *table])


# Two episodes: three steps that succeeded, two of them a human's; and two steps cut by the clock.
ROWS = (
    Row((0.0, 1.0), (0.5,), 1.0, (1.0, 2.0), 0.0, SUCCESS | HUMAN),
    Row((1.0, 2.0), (-0.5,), 0.25, (2.0, 3.0), 0.0, SUCCESS),
    Row((2.0, 3.0), (1.5,), -2.0, (3.0, 4.0), 1.0, SUCCESS | HUMAN),
    Row((10.0, 11.0), (0.125,), 8.0, (11.0, 12.0)),
    Row((11.0, 12.0), (0.25,), 16.0, (12.0, -0.0)),
)
EPISODES = (Episode(0, 3, 1), Episode(3, 2, 0))


def changed(number: int, **values: object) -> bytes:
    """The two episodes, with other values in one row."""
    rows = list(ROWS)
    rows[number] = replace(rows[number], **values)  # type: ignore[arg-type]
    return demo_bytes(2, 1, rows, EPISODES)


def with_table(*episodes: Episode) -> bytes:
    """The five rows, under another table of episodes."""
    return demo_bytes(2, 1, ROWS, episodes)


GOOD = demo_bytes(2, 1, ROWS, EPISODES)
BODY = GOOD[len(header(2, 1, 5, 2)) :]

FILES = {
    "good_two_episodes": GOOD,
    "good_one_row": demo_bytes(1, 1, [Row((0.5,), (2.0,), 3.0, (0.75,), 1.0)], [Episode(0, 1, 0)]),
    "good_no_rows": header(3, 2, 0, 0),
    "bad_empty": b"",
    "bad_text": b"These are no demonstrations.\n",
    "bad_magic": header(2, 1, 5, 2, magic=b"MRLDEMO2") + BODY,
    "bad_magic_case": header(2, 1, 5, 2, magic=b"mrldemo1") + BODY,
    "bad_big_endian": MAGIC + struct.pack(">IIIQI", 1, 2, 1, 5, 2) + BODY,
    "bad_version_0": header(2, 1, 5, 2, version=0) + BODY,
    "bad_version_2": header(2, 1, 5, 2, version=2) + BODY,
    "bad_header_cut": GOOD[:31],
    "bad_last_byte_missing": GOOD[:-1],
    "bad_one_byte_more": GOOD + b"\0",
    "bad_one_row_claimed_more": header(2, 1, 6, 2) + BODY,
    "bad_obs_dim_0": header(0, 1, 0, 0),
    "bad_act_dim_0": header(2, 0, 0, 0),
    "bad_obs_dim_huge": header(2**32 - 1, 1, 0, 0),
    "bad_act_dim_huge": header(2, 2**32 - 1, 0, 0),
    "bad_rows_2_60": header(2, 1, 2**60, 0),
    "bad_rows_largest": header(2, 1, 2**64 - 1, 2**32 - 1),
    # 2**59 rows of 32 bytes are 2**64 bytes: none at all, to whoever counts in 64 bits.
    "bad_rows_times_32_overflow": header(2, 1, 2**59, 0),
    "bad_done_half": changed(1, done=0.5),
    "bad_done_minus_1": changed(1, done=-1.0),
    "bad_done_nan": changed(2, done=math.nan),
    "bad_flags_bit_2": changed(3, flags=4),
    "bad_flags_bit_31": changed(3, flags=1 << 31),
    "bad_obs_nan": changed(0, obs=(0.0, math.nan)),
    "bad_obs_inf": changed(1, obs=(math.inf, 0.0)),
    "bad_action_nan": changed(2, action=(math.nan,)),
    "bad_action_inf": changed(4, action=(-math.inf,)),
    "bad_reward_nan": changed(3, reward=math.nan),
    "bad_reward_inf": changed(0, reward=-math.inf),
    "bad_next_obs_nan": changed(4, next_obs=(0.0, math.nan)),
    "bad_next_obs_inf": changed(4, next_obs=(math.inf, 0.0)),
    "bad_table_out_of_range": with_table(Episode(0, 3, 1), Episode(3, 3)),
    "bad_table_overlaps": with_table(Episode(0, 3, 1), Episode(2, 3)),
    "bad_table_has_a_gap": with_table(Episode(0, 2, 1), Episode(3, 2)),
    "bad_table_begins_late": with_table(Episode(1, 2, 1), Episode(3, 2)),
    "bad_table_ends_early": with_table(Episode(0, 3, 1), Episode(3, 1)),
    "bad_table_out_of_order": with_table(Episode(3, 2), Episode(0, 3, 1)),
    "bad_table_has_an_empty_episode": with_table(Episode(0, 3, 1), Episode(3, 0), Episode(3, 2)),
    "bad_table_is_empty": with_table(),
    # start + length is 5 modulo 2**64.
    "bad_table_wraps_around": with_table(Episode(0, 3, 1), Episode(2**64 - 1, 6)),
    "bad_table_length_wraps": with_table(Episode(0, 3, 1), Episode(3, 2**64 - 1)),
    "bad_episode_without_rows": demo_bytes(2, 1, [], [Episode(0, 0)]),
    "bad_success_7": with_table(Episode(0, 3, 7), Episode(3, 2)),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Make or check the .demo files of the tests.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    check = parser.parse_args().check
    wrong = []
    for name, content in FILES.items():
        path = FOLDER / f"{name}.demo"
        if not path.exists() and not check:
            path.write_bytes(content)
        if not path.exists() or path.read_bytes() != content:
            wrong.append(path.name)
    if wrong:
        print("missing, or not what would be made:", *wrong)
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
