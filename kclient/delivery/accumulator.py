"""Records waiting to be sent: a queue of batches for each partition, within bounded memory."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence

from kclient.config import ProducerOptions
from kclient.delivery.batch import Batch
from kclient.delivery.sequences import Row
from kclient.errors import ClientClosedError, SerializationError
from kclient.records import ArrowRows
from kclient.types import Header, TopicPartition

RECORD_OVERHEAD = 40
"""At most so many bytes does a record take besides key, value and headers."""
FAR = float("inf")

Pair = tuple["bytes | None", "bytes | None"]
"""Key and value."""


class Partition:
    """The batches of one partition, in the order they leave.

    ``queue`` holds those to be sent; only its last may still be open. ``in_flight`` are
    those sent and not answered. While one moves, it is in both rather than in neither, so
    that an interrupt loses nothing.
    """

    __slots__ = ("in_flight", "made", "queue", "row", "tp")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.queue: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.made = 0
        self.row = Row()

    def unsettled(self) -> Iterator[Batch]:
        """Every batch that has no outcome yet."""
        yield from self.in_flight
        yield from self.queue

    @property
    def may_leave(self) -> bool:
        """Whether the first batch of the queue need not wait for more records."""
        return bool(self.queue) and (not self.queue[0].is_open or self.queue[0].is_urgent)

    def put_back(self, batches: Sequence[Batch]) -> None:
        """Queue batches again, at their places in the order."""
        self.queue = deque(sorted([*self.queue, *batches], key=_order))

    def repair(self) -> None:
        """Let each batch without an outcome be in one place, after an interrupt."""
        waiting: dict[Batch, None] = {}
        for batch in self.queue:
            _collect(batch, waiting)
        flying = [batch for batch in self.in_flight if not batch.parts]
        for batch in self.in_flight:
            if batch.parts:
                _collect(batch, waiting)
        self.queue = deque(sorted(waiting, key=_order))
        self.in_flight = [each for each in flying if not each.is_done and each not in waiting]


def _order(batch: Batch) -> tuple[int, ...]:
    return batch.order


def _collect(batch: Batch, found: dict[Batch, None]) -> None:
    """Find what is to be sent of a batch: itself, or the parts it was split into."""
    for _, part in batch.parts:
        _collect(part, found)
    if not batch.parts and not batch.is_done:
        if batch.count:
            found[batch] = None
        else:
            batch.finish(-1)


class Accumulator:
    """All partitions' queues. ``lock`` guards everything here, except what a batch guards."""

    def __init__(self, options: ProducerOptions) -> None:
        self.lock = threading.Lock()
        self.partitions: dict[TopicPartition, Partition] = {}
        self.ready: dict[Partition, None] = {}
        """Partitions whose first batch may leave, as far as time is concerned."""
        self.used = 0
        self.memory = options["buffer_memory"]
        self.unsettled = 0
        """Batches without an outcome."""
        self.is_closed = False
        self.magic = 2
        self.transactional = False
        self._compression = options["compression_type"]
        self._batch_size = options["batch_size"]
        self._linger = options["linger_ms"] / 1000
        self._lifetime = options["delivery_timeout_ms"] / 1000
        self._lingering: deque[tuple[Batch, Partition]] = deque()
        self._by_age: deque[Batch] = deque()

    # --- appending ---

    @property
    def is_full(self) -> bool:
        """Whether the memory for records is used up."""
        return self.used >= self.memory

    def append(
        self,
        tp: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp: int,
        size: int,
        *,
        is_urgent: bool,
    ) -> Batch:
        """Add a record to the partition's open batch, as its last; ``lock`` must be held.

        ``size`` is what it may take at most. An urgent batch does not wait for
        ``linger_ms``. Raises SerializationError, ClientClosedError.
        """
        partition = self.partitions.get(tp) or self._partition(tp)
        queue = partition.queue
        try:
            batch = queue[-1] if queue and queue[-1].is_open else self._open(partition)
            before = batch.writer.size
            if before + size > self._batch_size and batch.writer.count:
                self.close(partition)
                batch = self._open(partition)
                before = batch.writer.size
            after = batch.writer.append(key, value, headers, timestamp)
            self.used += after - before
        except BaseException:
            self.repair()
            raise
        if after >= self._batch_size:
            self.close(partition)
        elif is_urgent and not batch.is_urgent:
            batch.is_urgent = True
            self.ready[partition] = None
        return batch

    def append_run(
        self,
        tp: TopicPartition,
        items: list[bytes | None] | list[Pair] | ArrowRows,
        start: int,
        timestamp: int,
        *,
        are_pairs: bool,
    ) -> tuple[Batch, int, int]:
        """Add values, pairs of key and value, or rows until the open batch is full; ``lock`` held.

        Returns the batch, the index of the first record in it, and of the first item that
        was not taken. Raises SerializationError; the items before the wrong one are in.
        """
        partition = self.partitions.get(tp) or self._partition(tp)
        queue = partition.queue
        try:
            batch = queue[-1] if queue and queue[-1].is_open else self._open(partition)
            writer, first = batch.writer, batch.count
            before = writer.size
            if isinstance(items, ArrowRows):
                taken = writer.append_arrow(items, start, timestamp, self._batch_size)
            elif are_pairs:
                taken = writer.append_pairs(items, start, timestamp, self._batch_size)  # type: ignore[arg-type]
            else:
                taken = writer.append_values(items, start, timestamp, self._batch_size)  # type: ignore[arg-type]
            self.used += writer.size - before
        except BaseException:
            self.repair()
            raise
        if taken < len(items) or writer.size >= self._batch_size:
            self.close(partition)
        return batch, first, taken

    def _partition(self, tp: TopicPartition) -> Partition:
        partition = self.partitions[tp] = Partition(tp)
        return partition

    def _open(self, partition: Partition) -> Batch:
        if self.is_closed:
            raise ClientClosedError("the producer is closed")
        batch = Batch(partition.tp, (partition.made,), self._compression, self.magic)
        batch.transactional = self.transactional
        partition.made += 1
        partition.queue.append(batch)
        self.used += batch.size
        self.unsettled += 1
        self._lingering.append((batch, partition))
        self._by_age.append(batch)
        return batch

    def close(self, partition: Partition) -> None:
        """Let no more records into the partition's last batch; it may leave."""
        partition.queue[-1].is_open = False
        self.ready[partition] = None

    def hurry(self, batch: Batch) -> None:
        """Let a batch leave without waiting for more records; ``lock`` must be held."""
        if batch.is_open:
            batch.is_urgent = True
            self.ready[self.partitions[batch.tp]] = None

    def repair(self) -> None:
        """Make sums and lists agree with the queues again; ``lock`` must be held.

        For an interrupt, or an error, in the middle of a change.
        """
        partitions = self.partitions.values()
        for partition in partitions:
            partition.repair()
        every = [(batch, partition) for partition in partitions for batch in partition.unsettled()]
        every.sort(key=lambda each: each[0].created_at)
        self.unsettled = len(every)
        self.used = sum(batch.charged for batch, _ in every)
        self.ready = {partition: None for partition in partitions if partition.may_leave}
        self._by_age = deque(batch for batch, _ in every)
        self._lingering = deque(each for each in every if each[0].is_open)

    # --- leaving ---

    def note_time(self, now: float) -> float:
        """Make partitions ready whose batches have lingered enough; when the next will have."""
        lingering = self._lingering
        linger = 0.0 if self.is_full else self._linger
        while lingering:
            batch, partition = lingering[0]
            if batch.is_open:
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
            if not batch.is_done and not batch.parts:
                found.append(batch)
        return found

    @property
    def next_expiry(self) -> float:
        """When the oldest batch will have to be given up."""
        return self._by_age[0].created_at + self._lifetime if self._by_age else FAR

    def take(self, partition: Partition) -> Batch:
        """Move the first batch of a queue to those in flight; ``lock`` must be held.

        Its partition goes behind the others that are ready, so that each has its turn.
        """
        batch = partition.queue[0]
        batch.is_open = False
        partition.in_flight.append(batch)
        partition.queue.popleft()
        self.ready.pop(partition, None)
        if partition.may_leave:
            self.ready[partition] = None
        return batch

    def requeue(self, batch: Batch, wait: float) -> None:
        """Send a batch again, after ``wait`` seconds; ``lock`` must be held."""
        partition = self.partitions[batch.tp]
        batch.not_before = time.monotonic() + wait
        partition.put_back([batch])
        partition.in_flight.remove(batch)
        self.ready[partition] = None

    def replace(self, batch: Batch, parts: Sequence[Batch]) -> None:
        """Queue parts in the place of the batch that was split; ``lock`` must be held."""
        partition = self.partitions[batch.tp]
        partition.put_back(parts)
        partition.in_flight.remove(batch)
        self._by_age.extendleft(parts)
        self.unsettled += len(parts) - 1
        self.used += sum(part.charged for part in parts) - batch.charged
        self.ready[partition] = None

    def remove(self, batch: Batch) -> None:
        """Let go of a batch that has an outcome; ``lock`` must be held."""
        partition = self.partitions[batch.tp]
        if batch in partition.in_flight:
            partition.in_flight.remove(batch)
        elif batch in partition.queue:
            partition.queue.remove(batch)
            if not partition.may_leave:
                self.ready.pop(partition, None)
        else:
            return
        batch.is_open = False
        self.used -= batch.charged
        self.unsettled -= 1

    def close_all(self) -> list[Batch]:
        """Let every batch leave now, and return all without an outcome; ``lock`` held."""
        for partition in self.partitions.values():
            if partition.queue:
                self.close(partition)
        return [batch for each in self.partitions.values() for batch in each.unsettled()]

    def load(self, topic: str) -> dict[int, int]:
        """Batches queued by partition of a topic, for spreading records without a key."""
        return {
            partition.tp.partition: len(partition.queue)
            for partition in self.ready
            if partition.tp.topic == topic
        }


def headers_size(headers: Sequence[Header]) -> int:
    """Bytes that headers take at most. Raises SerializationError for what are none."""
    size = 0
    try:
        for name, value in headers:
            size += 10 + len(name.encode()) + (0 if value is None else memoryview(value).nbytes)
    except (AttributeError, TypeError, ValueError):
        raise SerializationError(
            f"headers are pairs of text and bytes or None, not {headers!r}"
        ) from None
    return size
