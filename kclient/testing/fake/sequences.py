"""What a partition remembers of its producers, to tell repeats from gaps (KIP-98, KIP-360)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from kclient.records import RecordBatch
from kclient.testing.fake.codes import Code, Refusal

_REMEMBERED = 5  # batches a producer, as in a broker: the most it may have in flight
_SEQUENCES = 1 << 31  # sequence numbers wrap to 0 behind the largest int32


class _Written(NamedTuple):
    first: int
    last: int
    offset: int


@dataclass
class _Producer:
    epoch: int
    batches: deque[_Written] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


class Sequences:
    """The last batches of each idempotent producer, by producer id."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def check(self, batch: RecordBatch, *, before_kip_360: bool = False) -> int | None:
        """The offset of this very batch if it was written before, None if it is new.

        Raises a Refusal for a stale epoch or a gap. A producer nobody remembers may begin
        anywhere since KIP-360; before, that was UNKNOWN_PRODUCER_ID, and a repeat older
        than what is remembered DUPLICATE_SEQUENCE_NUMBER.
        """
        known = self._producers.get(batch.producer_id)
        first = batch.base_sequence
        if known is None:
            if before_kip_360 and first != 0:
                raise Refusal(Code.UNKNOWN_PRODUCER_ID)
            return None
        if batch.producer_epoch < known.epoch:
            raise Refusal(Code.INVALID_PRODUCER_EPOCH)
        if batch.producer_epoch > known.epoch:
            if first != 0:
                raise Refusal(Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
            return None
        last = _last_sequence(batch)
        for written in known.batches:
            if (written.first, written.last) == (first, last):
                return written.offset
        newest = known.batches[-1].last if known.batches else -1
        if first != (newest + 1) % _SEQUENCES:
            if before_kip_360 and last <= newest:
                raise Refusal(Code.DUPLICATE_SEQUENCE_NUMBER)
            raise Refusal(Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return None

    def remember(self, batch: RecordBatch, offset: int) -> None:
        """Note that ``batch`` was written at ``offset``."""
        known = self._producers.get(batch.producer_id)
        if known is None or known.epoch != batch.producer_epoch:
            known = self._producers[batch.producer_id] = _Producer(batch.producer_epoch)
        known.batches.append(_Written(batch.base_sequence, _last_sequence(batch), offset))

    def end_transaction(self, producer_id: int, epoch: int) -> None:
        """A marker was written: producers with an older epoch are fenced from now on."""
        known = self._producers.get(producer_id)
        if known is None or known.epoch < epoch:
            self._producers[producer_id] = _Producer(epoch)

    def forget(self, producer_id: int) -> None:
        """Know nothing of a producer any more, as when its records have expired."""
        self._producers.pop(producer_id, None)


def _last_sequence(batch: RecordBatch) -> int:
    return (batch.base_sequence + batch.last_offset - batch.base_offset) % _SEQUENCES
