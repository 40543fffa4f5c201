"""Offsets as Spark keeps them, and how ranges of offsets are cut into tasks; no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from kclient.types import TopicPartition

Offsets = dict[TopicPartition, int]
StoredOffsets = dict[str, dict[str, int]]
"""As in a checkpoint, and in the checkpoints of Spark's own connector: by topic and number."""


class OffsetRange(NamedTuple):
    """Offsets of one partition from ``start`` up to, not including, ``end``."""

    tp: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets it has, whether they hold records or not."""
        return self.end - self.start


def store(offsets: Mapping[TopicPartition, int]) -> StoredOffsets:
    """Offsets in the form that is kept."""
    stored: StoredOffsets = {}
    for tp in sorted(offsets):
        stored.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return stored


def load(stored: StoredOffsets) -> Offsets:
    """Offsets from the form that is kept."""
    return {
        TopicPartition(topic, int(number)): offset
        for topic, numbers in stored.items()
        for number, offset in numbers.items()
    }


def plan(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[OffsetRange]:
    """Cut ranges so that none has more than ``max_records`` and there are ``min_partitions``.

    Large ones are cut first, and into equal pieces; there may be fewer if there are not so
    many offsets. Empty ranges are left out.
    """
    found = [each for each in ranges if each.size > 0]
    if max_records is not None:
        found = [piece for each in found for piece in _cut(each, -(-each.size // max_records))]
    if min_partitions is not None and 0 < len(found) < min_partitions:
        total = sum(each.size for each in found)
        found = [
            piece
            for each in found
            for piece in _cut(each, max(1, round(each.size / total * min_partitions)))
        ]
    return found


def _cut(whole: OffsetRange, pieces: int) -> list[OffsetRange]:
    pieces = min(pieces, whole.size)
    marks = [whole.start + whole.size * number // pieces for number in range(pieces + 1)]
    return [OffsetRange(whole.tp, low, high) for low, high in pairwise(marks)]


def limit_rows(starts: Mapping[TopicPartition, int], ends: Offsets, rows: int) -> Offsets:
    """Ends that are at most ``rows`` offsets behind the starts together.

    Each partition gets its share of what is waiting, so that none is left behind; one that
    has anything to read moves on by one offset at least.
    """
    waiting = {tp: end - starts.get(tp, end) for tp, end in ends.items()}
    total = sum(size for size in waiting.values() if size > 0)
    if total <= rows:
        return dict(ends)
    limited: Offsets = {}
    for tp, end in ends.items():
        size = waiting[tp]
        share = max(1, size * rows // total) if size > 0 else 0
        limited[tp] = min(end, starts.get(tp, end) + share)
    return limited
