"""What a restart pool holds: buckets by key, points by serial, and which may be drawn."""

import zlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import pairwise

from cpreplay.restart.buckets import Bucket, pick, pick_weighted
from cpreplay.restart.configuration import RestartPoolConfiguration
from cpreplay.restart.marker import Key, Markers
from cpreplay.restart.point import Point


class Contents:
    """Points in buckets. Has no lock: its owner calls it under one.

    Parameters
    ----------
    configuration : RestartPoolConfiguration
    limit : int or None
        Draws of one point that may be in flight at a time.

    Attributes
    ----------
    buckets : dict
        By key; also those whose points are gone.
    live : dict
        Points by serial.
    """

    def __init__(self, configuration: RestartPoolConfiguration, limit: int | None) -> None:
        self._configuration = configuration
        self._limit = limit
        self.buckets: dict[Key, Bucket] = {}
        self.live: dict[int, Point] = {}
        self._filled: list[Bucket] = []  # those that have points, by key

    def filled(self) -> list[Bucket]:
        """Buckets that have points, by key: the order in which they are drawn and written."""
        return self._filled

    def _place(self, bucket: Bucket) -> int:
        """Where a bucket is, or would be, among those that have points."""
        return bisect_left(self._filled, bucket.key, key=lambda filled: filled.key)

    @property
    def nbytes(self) -> int:
        """Bytes of all records, as they are kept."""
        return sum(bucket.nbytes for bucket in self.buckets.values())

    def bucket(self, key: Key) -> Bucket:
        """The bucket of a key, made where there is none."""
        if key not in self.buckets:
            self.buckets[key] = Bucket(
                key, self._configuration.max_per_key, self._configuration.advance_window
            )
        return self.buckets[key]

    def weight(self, bucket: Bucket) -> float:
        """What a bucket counts in the choice of one."""
        if self._configuration.selection == "uniform":
            return 1.0
        return bucket.failure(self._configuration.selection_floor)

    def choose(self, u: float) -> Bucket | None:
        """A bucket with a point that may be drawn, by a number in [0, 1); None without any."""
        buckets = self.filled()
        if self._limit is not None:
            buckets = [bucket for bucket in buckets if bucket.eligible]
        if not buckets:
            return None
        if self._configuration.selection == "uniform":
            return buckets[pick(u, len(buckets))]
        return buckets[pick_weighted(u, [self.weight(bucket) for bucket in buckets])]

    def put(self, point: Point) -> None:
        """Put in a point as the newest of its bucket, in place of the oldest where that is full."""
        bucket = self.bucket(point.key)
        if not bucket.points:
            self._filled.insert(self._place(bucket), bucket)
        oldest = bucket.add(point)
        if oldest is not None:
            del self.live[oldest.serial]
        self.live[point.serial] = point

    def take_out(self, point: Point) -> None:
        """Take out a point. Its bucket's window and counts stay."""
        bucket = self.buckets[point.key]
        bucket.remove(point.serial)
        if not bucket.points:
            self._filled.pop(self._place(bucket))
        del self.live[point.serial]

    def count_in_flight(self, point: Point, change: int) -> None:
        """A draw of a point went out, or was reported about."""
        point.in_flight += change
        if self._limit is not None:
            self.buckets[point.key].hold_back(point.serial, point.in_flight >= self._limit)

    def broken(
        self, markers: Markers, open_draws: Mapping[int, int], next_serial: int
    ) -> Iterator[str]:
        """What is wrong, if anything is; ``open_draws`` has how many each serial's are."""
        in_buckets = 0
        for key, bucket in self.buckets.items():
            in_buckets += len(bucket.points)
            yield from self._broken_bucket(key, bucket)
            for point in bucket.points:
                name = f"point {point.serial} of bucket {key}"
                for fault in self._faults(point, key, markers, open_draws.get(point.serial, 0)):
                    yield f"{name} {fault}"
                if point.serial >= next_serial:
                    yield f"{name} has a serial that is yet to be given"
        if in_buckets != len(self.live):
            yield f"{in_buckets} points are in buckets, and {len(self.live)} are known by serial"
        filled = [key for key in sorted(self.buckets) if self.buckets[key].points]
        if [bucket.key for bucket in self.filled()] != filled:
            yield f"buckets are drawn that are not those with points, {filled}, in order"

    def _broken_bucket(self, key: Key, bucket: Bucket) -> Iterator[str]:
        serials = [point.serial for point in bucket.points]
        if key != bucket.key:
            yield f"the bucket of {bucket.key} is filed under {key}"
        if len(serials) > self._configuration.max_per_key:
            yield f"bucket {key} holds {len(serials)} of {self._configuration.max_per_key} points"
        if bucket.nbytes != sum(len(point.record.frame) for point in bucket.points):
            yield f"bucket {key} counts {bucket.nbytes} bytes, and its points have others"
        if any(a >= b for a, b in pairwise(serials)):
            yield f"bucket {key} is not in the order in which its points came in: {serials}"
        if len(bucket.window) > self._configuration.advance_window:
            yield f"the window of bucket {key} has {len(bucket.window)} entries"
        if bucket.advances != sum(bucket.window):
            yield f"bucket {key} counts {bucket.advances} advances of {sum(bucket.window)}"
        if max(bucket.timeouts, bucket.late_reports, len(bucket.window)) > bucket.finished:
            yield f"bucket {key} has more reports than its {bucket.finished} finished episodes"
        held_back = [
            point.serial
            for point in bucket.points
            if self._limit is not None and point.in_flight >= self._limit
        ]
        if bucket.held_back != held_back:
            yield f"bucket {key} holds back {bucket.held_back} where it should {held_back}"

    def _faults(self, point: Point, key: Key, markers: Markers, open_draws: int) -> Iterator[str]:
        if self.live.get(point.serial) is not point:
            yield "is not known by its serial"
        if point.key != key or markers.key(point.values) != key:
            yield f"has the key {point.key} and the values {dict(point.values)}"
        refusal = markers.refusal(point.values)
        if refusal is not None:
            yield f"is out of bounds: {refusal}"
        if not 0 <= point.timeouts < self._configuration.max_timeouts_per_point:
            yield f"has timed out {point.timeouts} times and is still there"
        if point.in_flight != open_draws:
            yield f"has {point.in_flight} draws in flight, and {open_draws} are open"
        if self._limit is not None and point.in_flight > self._limit:
            yield f"has {point.in_flight} draws in flight, more than {self._limit}"
        if zlib.crc32(point.record.frame) != point.record.crc:
            yield "has other bytes than were put in"
