"""Records waiting to be sent: a queue of batches for each partition, within bounded memory."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence

from kclient.config import ProducerOptions
from kclient.delivery.batch import Batch
from kclient.delivery.sequences import Row
from kclient.errors import KafkaError
from kclient.types import Header, TopicPartition

RECORD_OVERHEAD = 40
"""At most so many bytes does a record take besides key, value and headers."""
FAR = float("inf")


class Partition:
    """The batches of one partition, in the order they leave.

    ``queue`` holds those to be sent; only its last may still be open. ``in_flight`` are
    those sent and not answered.
    """

    __slots__ = ("in_flight", "is_open", "made", "queue", "row", "tp")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.queue: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.is_open = False
        self.made = 0
        self.row = Row()

    def unsettled(self) -> Iterator[Batch]:
        """Every batch that has no outcome yet."""
        yield from self.in_flight
        yield from self.queue

    def put_back(self, batch: Batch) -> None:
        """Queue a batch again, at its old place in the order."""
        self.in_flight.remove(batch)
        index = 0
        for each in self.queue:
            if each.number > batch.number or _is_later(each, batch):
                break
            index += 1
        self.queue.insert(index, batch)


def _is_later(one: Batch, other: Batch) -> bool:
    """Whether one half of a split batch comes behind another."""
    return one.number == other.number and one.sequence > other.sequence >= 0


class Accumulator:
    """All partitions' queues. ``lock`` guards everything here, except what a batch guards."""

    def __init__(self, options: ProducerOptions) -> None:
        self.lock = threading.Lock()
        self.partitions: dict[TopicPartition, Partition] = {}
        self.ready: dict[Partition, None] = {}
        """Partitions whose first batch may leave, as far as time is concerned."""
        self.used = 0
        self.unsettled = 0
        """Batches without an outcome."""
        self.is_flushing = 0
        self.magic = 2
        self.transactional = False
        self._compression = options["compression_type"]
        self._batch_size = options["batch_size"]
        self._memory = options["buffer_memory"]
        self._linger = options["linger_ms"] / 1000
        self._lifetime = options["delivery_timeout_ms"] / 1000
        self._lingering: deque[tuple[Batch, Partition]] = deque()
        self._by_age: deque[Batch] = deque()

    # --- appending ---

    @property
    def is_full(self) -> bool:
        """Whether the memory for records is used up."""
        return self.used >= self._memory

    def append(
        self,
        tp: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp: int,
        *,
        is_urgent: bool,
    ) -> Batch:
        """Add a record to the partition's open batch, as its last; ``lock`` must be held.

        An urgent batch does not wait for ``linger_ms``. Raises SerializationError.
        """
        partition = self.partitions.get(tp) or self._partition(tp)
        batch = partition.queue[-1] if partition.is_open else self._open(partition)
        size = (0 if key is None else len(key)) + (0 if value is None else len(value))
        if headers:
            size += _headers_size(headers)
        before = batch.writer.size
        if before + size + RECORD_OVERHEAD > self._batch_size and batch.writer.count:
            self.close(partition)
            batch = self._open(partition)
            before = batch.writer.size
        try:
            after = batch.writer.append(key, value, headers, timestamp)
        except KafkaError:
            if not batch.writer.count:
                self._discard(partition)
            raise
        self.used += after - before
        if after >= self._batch_size:
            self.close(partition)
        elif is_urgent and not batch.is_urgent:
            batch.is_urgent = True
            self.ready[partition] = None
        return batch

    def append_run(
        self,
        tp: TopicPartition,
        items: list[bytes | None] | list[tuple[bytes | None, bytes | None]],
        start: int,
        timestamp: int,
        *,
        are_pairs: bool,
    ) -> tuple[Batch, int]:
        """Add values, or pairs of key and value, until the open batch is full; ``lock`` held.

        Returns the batch and the index of the first item that was not taken.
        """
        partition = self.partitions.get(tp) or self._partition(tp)
        batch = partition.queue[-1] if partition.is_open else self._open(partition)
        writer = batch.writer
        before = writer.size
        try:
            if are_pairs:
                taken = writer.append_pairs(items, start, timestamp, self._batch_size)  # type: ignore[arg-type]
            else:
                taken = writer.append_values(items, start, timestamp, self._batch_size)  # type: ignore[arg-type]
        finally:
            self.used += writer.size - before
            if not writer.count:
                self._discard(partition)
        if taken < len(items) or writer.size >= self._batch_size:
            self.close(partition)
        return batch, taken

    def _partition(self, tp: TopicPartition) -> Partition:
        partition = self.partitions[tp] = Partition(tp)
        return partition

    def _open(self, partition: Partition) -> Batch:
        batch = Batch(partition.tp, partition.made, self._compression, self.magic)
        batch.transactional = self.transactional
        partition.made += 1
        partition.queue.append(batch)
        partition.is_open = True
        self.used += batch.size
        self.unsettled += 1
        self._lingering.append((batch, partition))
        self._by_age.append(batch)
        return batch

    def _discard(self, partition: Partition) -> None:
        """Take back a batch that its first record did not fit into."""
        batch = partition.queue.pop()
        partition.is_open = False
        self.settle(batch)
        batch.is_done = True

    def close(self, partition: Partition) -> None:
        """Let no more records into the partition's open batch; it may leave."""
        partition.is_open = False
        self.ready[partition] = None

    # --- leaving ---

    def note_time(self, now: float) -> float:
        """Make partitions ready whose batches have lingered enough; when the next will have."""
        lingering, linger = self._lingering, 0.0 if self.is_flushing else self._linger
        if self.is_full:
            linger = 0.0
        while lingering:
            batch, partition = lingering[0]
            if partition.is_open and partition.queue[-1] is batch:
                if batch.created_at + linger > now:
                    return batch.created_at + linger
                batch.is_urgent = True
                self.ready[partition] = None
            lingering.popleft()
        return FAR

    def expired(self, now: float) -> list[Batch]:
        """Batches older than ``delivery_timeout_ms``, which are to be given up."""
        found = []
        by_age = self._by_age
        while by_age and (by_age[0].is_done or by_age[0].created_at + self._lifetime <= now):
            batch = by_age.popleft()
            if not batch.is_done:
                found.append(batch)
        return found

    @property
    def next_expiry(self) -> float:
        """When the oldest batch will have to be given up."""
        return self._by_age[0].created_at + self._lifetime if self._by_age else FAR

    def take(self, partition: Partition) -> Batch:
        """Move the first batch of a queue to those in flight; ``lock`` must be held."""
        batch = partition.queue.popleft()
        if not partition.queue:
            partition.is_open = False
        partition.in_flight.append(batch)
        self._note_queue(partition)
        return batch

    def _note_queue(self, partition: Partition) -> None:
        """Keep a partition among the ready ones while its first batch may leave."""
        queue = partition.queue
        if not queue or (partition.is_open and len(queue) == 1 and not queue[0].is_urgent):
            self.ready.pop(partition, None)

    def requeue(self, batch: Batch, wait: float) -> None:
        """Send a batch again, after ``wait`` seconds; ``lock`` must be held."""
        partition = self.partitions[batch.tp]
        batch.not_before = time.monotonic() + wait
        partition.put_back(batch)
        self.ready[partition] = None

    def drop(self, batch: Batch) -> None:
        """Take a batch out of its partition, whatever state it is in; ``lock`` must be held."""
        partition = self.partitions[batch.tp]
        if batch in partition.in_flight:
            partition.in_flight.remove(batch)
        elif batch in partition.queue:
            if partition.is_open and partition.queue[-1] is batch:
                partition.is_open = False
            partition.queue.remove(batch)
            self._note_queue(partition)

    def settle(self, batch: Batch) -> None:
        """Free the memory of a batch that has an outcome; ``lock`` must be held."""
        self.used -= batch.size
        self.unsettled -= 1

    def replace(self, batch: Batch, parts: Sequence[Batch]) -> None:
        """Queue parts in the place of the batch that was split; ``lock`` must be held."""
        partition = self.partitions[batch.tp]
        partition.in_flight.remove(batch)
        for part in parts:
            partition.in_flight.append(part)
            self.used += part.size
            self.unsettled += 1
            self._by_age.appendleft(part)
        for part in parts:
            self.requeue(part, 0.0)

    def close_all(self) -> None:
        """Let every batch leave now; ``lock`` must be held."""
        for partition in self.partitions.values():
            if partition.queue:
                self.close(partition)

    def load(self, topic: str) -> dict[int, int]:
        """Batches queued by partition of a topic, for spreading records without a key."""
        return {
            tp.partition: len(partition.queue)
            for tp, partition in self.partitions.items()
            if tp.topic == topic and partition.queue
        }


def _headers_size(headers: Sequence[Header]) -> int:
    return sum(10 + 3 * len(name) + len(value or b"") for name, value in headers)
