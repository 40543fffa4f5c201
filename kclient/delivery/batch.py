"""A batch on its way: records of one partition that are written, sent and answered together."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from kclient.errors import KafkaError
from kclient.records import decode, open_batch
from kclient.records.interface import BatchWriter
from kclient.types import RecordMetadata, TopicPartition

if TYPE_CHECKING:
    from kclient.delivery.future import SendFuture

_NOTHING = open_batch()
"""The writer of batches that are over."""


class Batch:
    """Records for one partition, from the first append to the broker's answer.

    It is open while records are appended, then closed, then sealed into bytes that no longer
    change while they are in flight. ``condition`` guards the outcome: whoever waits for a
    record of the batch waits there.
    """

    __slots__ = (
        "_charged",
        "_count",
        "attempts",
        "base_offset",
        "compression",
        "condition",
        "created_at",
        "data",
        "error",
        "interested",
        "is_done",
        "is_open",
        "is_urgent",
        "log_append_time",
        "magic",
        "not_before",
        "observed",
        "order",
        "parts",
        "producer_epoch",
        "producer_id",
        "sequence",
        "submitted",
        "tp",
        "transactional",
        "whole",
        "writer",
    )

    def __init__(
        self, tp: TopicPartition, order: tuple[int, ...], compression: str | None, magic: int
    ) -> None:
        """``order`` ranks the batches of a partition: they leave in this order."""
        self.tp = tp
        self.order = order
        self.compression = compression
        self.magic = magic
        self.writer: BatchWriter = open_batch(compression, magic=magic)
        self.data: bytes | None = None
        self.created_at = time.monotonic()
        self.not_before = 0.0
        self.is_open = True
        self.is_urgent = False
        self.attempts = 0
        self.producer_id = self.producer_epoch = self.sequence = -1
        self.transactional = False
        self.condition = threading.Condition()
        self.is_done = False
        self.base_offset = -1
        self.log_append_time = -1
        self.error: KafkaError | None = None
        self.whole: Batch | None = None
        self.parts: list[tuple[int, Batch]] = []
        """After a split: the batches that took over, each with the index of its first record,
        and in each of them the ``whole`` it is part of."""
        self.interested: deque[SendFuture] = deque()
        """Futures that somebody waits on from outside, or that have callbacks."""
        self.submitted = 0
        self.observed = 0
        """Of the records by ``submit``: how many there are, how many errors were looked at."""
        self._charged = self._count = 0  # kept when the writer is gone

    def __repr__(self) -> str:
        place = ".".join(map(str, self.order))
        return f"<Batch {self.tp.topic}[{self.tp.partition}] #{place} of {self.count}>"

    @property
    def count(self) -> int:
        """Records in it."""
        return self._count or self.writer.count

    @property
    def size(self) -> int:
        """Bytes that it takes, before compression."""
        return self.writer.size

    def release(self) -> None:
        """Let go of the bytes: futures that somebody keeps must not keep them too."""
        self._charged = self.charged
        self.data = None
        self._count = self.count
        self.writer = _NOTHING

    @property
    def charged(self) -> int:
        """Bytes that it takes of ``buffer_memory``; rewriting it does not change that."""
        return self._charged or self.writer.size

    @property
    def has_sequence(self) -> bool:
        """Whether it has been sent, or is about to be, under a sequence number."""
        return self.sequence >= 0

    def assign(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Give it its place in the producer's row; bytes sealed for another are dropped."""
        self.data = None
        self.producer_id, self.producer_epoch, self.sequence = producer_id, epoch, sequence

    def sealed(self) -> bytes:
        """The bytes to send; the same ones for each attempt. Raises MissingCodec."""
        if self.data is None:
            self.data = self.writer.seal(
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=self.sequence,
                transactional=self.transactional,
            )
        return self.data

    def convert(self, magic: int) -> None:
        """Write it anew in an older format. Raises UnsupportedVersion, say for headers."""
        writer = open_batch(self.compression, magic=magic)
        for record in decode(self.writer.seal()):
            writer.append(record.key, record.value, record.headers, record.timestamp)
        self._charged = self.charged
        self.data = None
        self.writer, self.magic = writer, magic

    def split(self) -> list[Batch]:
        """Two batches of half the records each, which take this one's place in the row."""
        records = decode(self.writer.seal())
        middle = len(records) // 2
        parts: list[tuple[int, Batch]] = []
        for start, some in ((0, records[:middle]), (middle, records[middle:])):
            half = Batch(self.tp, (*self.order, len(parts)), self.compression, self.magic)
            for record in some:
                half.writer.append(record.key, record.value, record.headers, record.timestamp)
            half.created_at, half.is_open, half.is_urgent = self.created_at, False, True
            half.attempts, half.transactional = self.attempts, self.transactional
            if self.has_sequence:
                sequence = following(self.sequence, start)
                half.assign(self.producer_id, self.producer_epoch, sequence)
            half.whole = self
            parts.append((start, half))
        self.parts = parts
        return [half for _, half in parts]

    def finish(
        self, base_offset: int, log_append_time: int = -1, error: KafkaError | None = None
    ) -> None:
        """Settle how it ended, and wake who waits. Only the first outcome counts.

        It may be called again, to complete what an interrupt left undone.
        """
        with self.condition:
            if not self.is_done:
                self.base_offset, self.log_append_time = base_offset, log_append_time
                self.error = error
                self.is_done = True
            self.condition.notify_all()
        if self.whole is not None:
            self.whole._join()

    def _join(self) -> None:
        """End as one's parts did, once all of them have."""
        parts = [part for _, part in self.parts]
        if all(part.is_done for part in parts):
            error = next((part.error for part in parts if part.error is not None), None)
            self.finish(parts[0].base_offset, parts[0].log_append_time, error)

    def outcome(self, index: int, timestamp: int) -> RecordMetadata | KafkaError:
        """What became of one record, once the batch is done."""
        for start, part in reversed(self.parts):
            if index >= start:
                return part.outcome(index - start, timestamp)
        if self.error is not None:
            return self.error
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        when = self.log_append_time if self.log_append_time >= 0 else timestamp
        return RecordMetadata(self.tp.topic, self.tp.partition, offset, when)

    def failed(self) -> int:
        """How many of its records were not delivered, once it is done."""
        if self.parts:
            return sum(part.failed() for _, part in self.parts)
        return self.count if self.error is not None else 0


def following(sequence: int, count: int) -> int:
    """The sequence number ``count`` records later; after 2^31 - 1 comes 0."""
    return (sequence + count) & 0x7FFFFFFF
