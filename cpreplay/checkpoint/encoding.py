"""Records of a checkpoint as zstd frames: encoded, and checked before they are decoded."""

import threading
import zlib
from collections.abc import Iterable

import attrs
import zstandard

from cpreplay.checkpoint.members import BLOCK, Buffer
from cpreplay.errors import CheckpointError, ConfigurationError
from cpreplay.integers import is_count

RECORD_LIMIT = 1 << 30
"""Bytes of a record before compression: no more are written, and no more are read where a reader is
not told otherwise."""

# A zstd block takes four bytes at least, and gives 128 KiB at most.
_LEAST_BLOCK, _MOST_OF_BLOCK = 4, 1 << 17


@attrs.frozen
class EncodedRecord:
    """A record that is compressed already, to be kept in memory or written.

    Attributes
    ----------
    frame : bytes
        One zstd frame, with its content size and a checksum.
    size : int
        Bytes before compression.
    crc : int
        CRC-32 of ``frame``, taken when it was made.
    """

    frame: bytes
    size: int
    crc: int


# A window of 4 MiB, a chunk of rows. At level 1 zstd would look back 512 KiB and miss that next_obs
# repeats obs: for 84 MB of prioritized rows that took 0.62 s and 78 MB instead of 0.50 s and 46 MB.
_WINDOW_LOG = 22


class Encoder:
    """Compresses records.

    Parameters
    ----------
    level : int, default: 1
        Of zstd, 1 to 22.

    Raises
    ------
    ConfigurationError
        Another level.

    Notes
    -----
    One per thread: a zstd compressor that two threads use at once ends the process.
    """

    def __init__(self, level: int = 1) -> None:
        if not is_count(level) or level > zstandard.MAX_COMPRESSION_LEVEL:
            raise ConfigurationError(
                f"level is {level!r}, and zstd has 1 to {zstandard.MAX_COMPRESSION_LEVEL}"
            )
        self._compressor = zstandard.ZstdCompressor(
            compression_params=zstandard.ZstdCompressionParameters.from_level(
                int(level), window_log=_WINDOW_LOG, write_checksum=True, write_content_size=True
            )
        )

    def encode(self, parts: Iterable[Buffer]) -> EncodedRecord:
        """Compress whole members to one record, without joining them first.

        Parameters
        ----------
        parts : iterable of bytes, bytearray or memoryview
            What `member`, `npy_member` and `json_member` give, one after the other.

        Raises
        ------
        ConfigurationError
            These are no whole members: nothing, or no multiple of 512 bytes.
        """
        parts = list(parts)
        size = sum(memoryview(part).nbytes for part in parts)
        if not size or size % BLOCK:
            raise ConfigurationError(
                f"a record of {size:,} bytes was to be encoded, and whole members take a multiple "
                f"of {BLOCK}; make them with member, npy_member and json_member"
            )
        stream = self._compressor.compressobj(size=size)
        frame = b"".join([*(stream.compress(part) for part in parts), stream.flush()])
        return EncodedRecord(frame, size, zlib.crc32(frame))


def decode(record: EncodedRecord, *, limit: int = RECORD_LIMIT) -> bytes:
    """Decompress a record after checking it.

    Parameters
    ----------
    record : EncodedRecord
    limit : int, default: 2**30
        More bytes than this, after decompression, are refused.

    Raises
    ------
    CheckpointError
        The frame is not the one that its CRC was taken of, is no single zstd frame, or does not
        state ``record.size`` bytes; or they are above the limit, or more than it could give.

    Notes
    -----
    Any thread may call it at any time. Nothing is allocated before all sizes agree.
    """
    fault = fault_of(record, limit)
    if fault:
        raise CheckpointError(f"a record is damaged: {fault}")
    return decompressed(record.frame)


def decode_start(record: EncodedRecord, count: int) -> bytes:
    """Decompress the first bytes of a record that a `RecordReader` gave, and no more of it.

    Parameters
    ----------
    record : EncodedRecord
    count : int
        Fewer come where the record is shorter.

    Raises
    ------
    CheckpointError
        It is no zstd frame as far as that.

    Notes
    -----
    Costs one block of zstd, 128 KiB, whatever the record's size.
    """
    try:
        with _decompressor().stream_reader(record.frame) as stream:
            return stream.read(count)
    except zstandard.ZstdError as error:
        raise CheckpointError(f"a record is damaged: {error}") from None


def fault_of(record: EncodedRecord, limit: int) -> str:
    """What can be seen to be wrong with a record without decoding it; empty if nothing is."""
    frame, size = record.frame, record.size
    if zlib.crc32(frame) != record.crc:
        return "its CRC differs"
    possible = len(frame) // _LEAST_BLOCK * _MOST_OF_BLOCK
    if not 0 < size <= min(limit, possible):
        return (
            f"it says {size:,} bytes, and {limit:,} are allowed, {possible:,} possible in a frame "
            f"of {len(frame):,}"
        )
    try:
        stated = zstandard.frame_content_size(frame)
    except zstandard.ZstdError as error:
        return str(error)
    return "" if stated == size else f"it says {size:,} bytes, and its frame {stated:,}"


# A decompressor that two threads use at once ends the process: each thread has its own.
_of_thread = threading.local()


def _decompressor() -> zstandard.ZstdDecompressor:
    if not hasattr(_of_thread, "decompressor"):
        _of_thread.decompressor = zstandard.ZstdDecompressor()
    decompressor: zstandard.ZstdDecompressor = _of_thread.decompressor
    return decompressor


def decompressed(frame: bytes) -> bytes:
    """What a frame holds that `fault_of` finds nothing wrong with."""
    try:
        return _decompressor().decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CheckpointError(f"a record is damaged: {error}") from None
