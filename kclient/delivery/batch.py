"""A batch on its way: records of one partition that are written, sent and answered together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kclient.errors import KafkaError
from kclient.records import decode, open_batch
from kclient.records.interface import BatchWriter
from kclient.types import RecordMetadata, TopicPartition

if TYPE_CHECKING:
    from kclient.delivery.future import SendFuture


class Batch:
    """Records for one partition, from the first append to the broker's answer.

    It is open while records are appended, then closed, then sealed into bytes that no longer
    change while they are in flight. ``condition`` guards the outcome: whoever waits for a
    record of the batch waits there.
    """

    __slots__ = (
        "attempts",
        "base_offset",
        "compression",
        "condition",
        "created_at",
        "data",
        "error",
        "interested",
        "is_done",
        "is_urgent",
        "listeners",
        "log_append_time",
        "magic",
        "not_before",
        "number",
        "observed",
        "parts",
        "producer_epoch",
        "producer_id",
        "sequence",
        "submitted",
        "tp",
        "transactional",
        "writer",
    )

    def __init__(
        self, tp: TopicPartition, number: int, compression: str | None, magic: int
    ) -> None:
        """``number`` counts the batches of a partition: they leave in its order."""
        self.tp = tp
        self.number = number
        self.compression = compression
        self.magic = magic
        self.writer: BatchWriter = open_batch(compression, magic=magic)
        self.data: bytes | None = None
        self.created_at = time.monotonic()
        self.not_before = 0.0
        self.is_urgent = False
        self.attempts = 0
        self.producer_id = self.producer_epoch = self.sequence = -1
        self.transactional = False
        self.condition = threading.Condition()
        self.is_done = False
        self.base_offset = -1
        self.log_append_time = -1
        self.error: KafkaError | None = None
        self.parts: list[tuple[int, Batch]] = []
        """After a split: the batches that took over, each with the index of its first record."""
        self.interested: list[SendFuture] = []
        """Futures that somebody waits on from outside, or that have callbacks."""
        self.listeners: list[Callable[[Batch], None]] = []
        """Told when it is done, by the thread that carries the I/O: they must be quick."""
        self.submitted = 0
        self.observed = 0
        """Of the records by ``submit``: how many there are, how many errors were looked at."""

    def __repr__(self) -> str:
        return f"<Batch {self.tp.topic}[{self.tp.partition}] #{self.number} of {self.count}>"

    @property
    def count(self) -> int:
        """Records in it."""
        return self.writer.count

    @property
    def size(self) -> int:
        """Bytes that it takes, before compression."""
        return self.writer.size

    @property
    def has_sequence(self) -> bool:
        """Whether it has been sent, or is about to be, under a sequence number."""
        return self.sequence >= 0

    def assign(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Give it its place in the producer's row; bytes sealed for another are dropped."""
        self.producer_id, self.producer_epoch, self.sequence = producer_id, epoch, sequence
        self.data = None

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
        self.writer, self.magic, self.data = writer, magic, None

    def split(self) -> list[Batch]:
        """Two batches of half the records each, which take this one's place in the row."""
        records = decode(self.writer.seal())
        middle = len(records) // 2
        halves = []
        for start, some in ((0, records[:middle]), (middle, records[middle:])):
            half = Batch(self.tp, self.number, self.compression, self.magic)
            for record in some:
                half.writer.append(record.key, record.value, record.headers, record.timestamp)
            half.created_at, half.is_urgent = self.created_at, True
            half.attempts, half.transactional = self.attempts, self.transactional
            if self.has_sequence:
                sequence = following(self.sequence, start)
                half.assign(self.producer_id, self.producer_epoch, sequence)
            half.listeners.append(self._part_done)
            self.parts.append((start, half))
            halves.append(half)
        return halves

    def _part_done(self, part: Batch) -> None:
        if all(each.is_done for _, each in self.parts):
            errors = (each.error for _, each in self.parts if each.error is not None)
            self.finish(part.base_offset, part.log_append_time, next(errors, None))

    def finish(
        self, base_offset: int, log_append_time: int = -1, error: KafkaError | None = None
    ) -> None:
        """Tell everybody how it ended. Only the first call counts."""
        with self.condition:
            if self.is_done:
                return
            self.base_offset, self.log_append_time = base_offset, log_append_time
            self.error = error
            self.is_done = True
            interested, self.interested = self.interested, []
            self.condition.notify_all()
        for tell in self.listeners:
            tell(self)
        for future in interested:
            future.tell()

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


def following(sequence: int, count: int) -> int:
    """The sequence number ``count`` records later; after 2^31 - 1 comes 0."""
    return (sequence + count) & 0x7FFFFFFF


def total(batches: Sequence[Batch]) -> int:
    """How many records some batches hold."""
    return sum(batch.count for batch in batches)
