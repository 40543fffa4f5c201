"""``send_many``: any iterable, chunk by chunk, with no lock, future or call per record."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from kclient.deadline import Deadline
from kclient.delivery.accumulator import Pair
from kclient.delivery.batch import Batch
from kclient.delivery.carrier import Carrier
from kclient.delivery.intake import Intake
from kclient.delivery.partitioner import spread
from kclient.delivery.placement import Topic
from kclient.delivery.sender import Sender
from kclient.errors import DeliveryError, KafkaError, SerializationError
from kclient.records import ArrowRows
from kclient.types import ProducerRecord, TopicPartition

_CHUNK = 2048
"""Records looked at together, at most."""
_FIRST_CHUNK = 64
_SLOW_SECONDS = 0.02
"""An iterable that takes so long for a chunk is asked for less at once."""


@dataclass(frozen=True)
class SendReport:
    """What ``send_many`` wrote: how many records, and the first and last offset by partition.

    Others' records may lie between; offsets are -1 if the broker did not tell them.
    """

    count: int
    offsets: dict[TopicPartition, tuple[int, int]]


@dataclass(frozen=True)
class Failure:
    """Records of one batch that were not delivered, and why."""

    topic: str
    partition: int
    count: int
    error: KafkaError


class _Share(NamedTuple):
    """Our part of a batch that others may write to as well."""

    first: int
    end: int
    records: int


class Tally:
    """Counts what became of the records of one call."""

    def __init__(self) -> None:
        self.open: dict[Batch, _Share] = {}
        """Batches that have not been counted, in the order they were begun."""
        self.count = 0
        self.offsets: dict[TopicPartition, tuple[int, int]] = {}
        self.failures: list[Failure] = []

    def watch(self, batch: Batch, first: int, end: int) -> None:
        """Count the records from index ``first`` to before ``end``, just added to a batch."""
        known = self.open.get(batch)
        if known is None:
            self.open[batch] = _Share(first, end, end - first)
        else:
            self.open[batch] = _Share(known.first, end, known.records + end - first)

    def is_over(self) -> bool:
        """Count batches that have an outcome; whether that is all of them."""
        while self.open:
            batch = next(iter(self.open))
            if not batch.is_done:
                return False
            self._count(batch, self.open[batch])
            del self.open[batch]
        return True

    def _count(self, batch: Batch, share: _Share) -> None:
        if batch.error is not None:
            # Of a batch that was split, a part may have been delivered; who wrote which record
            # of it is not known here, so all of it counts as ours as far as it can be.
            failed = min(batch.failed(), share.records)
            self.count += share.records - failed
            self.failures.append(Failure(*batch.tp, failed, batch.error))
            return
        self.count += share.records
        low, high = batch.outcome(share.first, -1), batch.outcome(share.end - 1, -1)
        if isinstance(low, KafkaError) or isinstance(high, KafkaError):
            return
        before = self.offsets.get(batch.tp, (low.offset, high.offset))
        self.offsets[batch.tp] = min(before[0], low.offset), max(before[1], high.offset)

    @property
    def report(self) -> SendReport:
        """What was delivered so far."""
        return SendReport(self.count, self.offsets)


class Bulk:
    """Writes iterables of records to a topic."""

    def __init__(self, intake: Intake, carrier: Carrier, sender: Sender) -> None:
        self._intake = intake
        self._accumulator = intake.accumulator
        self._carrier = carrier
        self._sender = sender

    def send(self, topic: str, records: Iterable[Any], deadline_seconds: float) -> SendReport:
        """Write all of an iterable; see ``send_by``."""
        if isinstance(records, (bytes, bytearray, str)):
            raise SerializationError(
                f"send_many takes an iterable of records, not one {type(records).__name__}: use "
                "send for a single record",
                topic=topic,
            )

        def append(tally: Tally) -> None:
            for chunk, is_slow in chunks(records):
                self._append(topic, chunk, tally)
                if tally.failures:
                    break  # more would fail alike, and the iterable may have no end
                if is_slow:
                    self._sender.nudge()  # nobody else sends while we wait for the iterable

        return self.send_by(topic, append, deadline_seconds)

    def send_by(
        self, topic: str, append: Callable[[Tally], None], deadline_seconds: float
    ) -> SendReport:
        """Write all that ``append`` takes, and wait until all are acknowledged.

        ``deadline_seconds`` run from its end. Raises DeliveryError. After another error, or
        an interrupt, what was taken is sent, but not awaited.
        """
        tally = Tally()
        try:
            append(tally)
            self.complete(tally, topic, deadline_seconds)
        except BaseException:
            self._leave(tally)
            raise
        return tally.report

    def complete(self, tally: Tally, topic: str, seconds: float) -> None:
        """Wait until all that was taken has an outcome. Raises DeliveryError, KafkaTimeout."""
        with self._accumulator.lock:
            for batch in tally.open:
                self._accumulator.hurry(batch)
        self._carrier.until(tally.is_over, Deadline(seconds), f"sending records to {topic!r}")
        if tally.failures:
            raise delivery_error(tally.failures, tally.report)

    def _leave(self, tally: Tally) -> None:
        """Let what was taken go its way; ``flush`` and ``close`` tell if it fails."""
        with self._accumulator.lock:
            for batch, share in tally.open.items():
                batch.submitted += share.records
                self._accumulator.hurry(batch)
        if tally.open:
            self._sender.nudge()

    def _append(self, topic: str, chunk: list[Any], tally: Tally) -> None:
        """Sort a chunk out: most are all values, or all pairs, and go the short way."""
        kinds = set(map(type, chunk))
        serialization = self._intake.serialization
        if kinds == {tuple} and set(map(len, chunk)) == {2}:
            keys, values = (list(column) for column in zip(*chunk, strict=True))
            if not serialization.is_plain:
                keys = [serialization.key(key, topic) for key in keys]
                values = [serialization.value(value, topic) for value in values]
                chunk = list(zip(keys, values, strict=True))
            if set(map(type, keys)) <= _BYTES and set(map(type, values)) <= _BYTES:
                self._intake.check_size(topic, longest(keys) + longest(values))
                self._append_pairs(topic, chunk, keys, tally)
                return
        elif not any(issubclass(kind, tuple) for kind in kinds):
            values = chunk
            if not serialization.is_plain:
                values = [serialization.value(value, topic) for value in chunk]
            if set(map(type, values)) <= _BYTES:
                self._intake.check_size(topic, longest(values))
                self._append_values(topic, values, tally)
                return
        for item in chunk:
            self._append_record(topic, _as_record(item), tally)

    def _append_record(self, topic: str, record: ProducerRecord, tally: Tally) -> None:
        batch, index, _ = self._intake.append(
            record.topic or topic,
            record.value,
            record.key,
            record.headers,
            record.partition,
            record.timestamp_ms,
            None,
            is_urgent=False,
        )
        tally.watch(batch, index, index + 1)
        if self._accumulator.ready:
            self._carrier.step()
            tally.is_over()

    def _append_values(self, topic: str, values: list[bytes | None], tally: Tally) -> None:
        """Values without keys: each run of them fills the sticky partition's batch."""
        start, end = 0, len(values)
        while start < end:
            state = self.ready_topic(topic, tally)
            chosen = state.partitioner.partition(None, state.count, state.available)
            start = self.append_run(state, chosen, values, start, tally)

    def _append_pairs(
        self, topic: str, pairs: list[Pair], keys: list[bytes | None], tally: Tally
    ) -> None:
        """Pairs are sorted by partition first, so that each partition takes a run of them."""
        state = self.ready_topic(topic, tally)
        groups: dict[int | None, list[Pair]] = defaultdict(list)
        placed = spread(state.partitioner, keys, state.count, state.available)
        for chosen, pair in zip(placed, pairs, strict=True):
            groups[chosen].append(pair)
        for chosen, some in groups.items():
            start = 0
            while start < len(some):
                state = self.ready_topic(topic, tally)
                start = self.append_run(state, chosen, some, start, tally, are_pairs=True)

    def append_run(
        self,
        state: Topic,
        chosen: int | None,
        items: list[Any] | ArrowRows,
        start: int,
        tally: Tally,
        *,
        are_pairs: bool = False,
    ) -> int:
        """Fill a partition's open batch; returns the index of the first item not taken."""
        accumulator = self._accumulator
        now_ms = int(time.time() * 1000)
        with accumulator.lock:
            tp = state.tps[state.sticky.current if chosen is None else chosen]
            batch, first, taken = accumulator.append_run(
                tp, items, start, now_ms, are_pairs=are_pairs
            )
            tally.watch(batch, first, first + taken - start)
            if chosen is None and not batch.is_open:
                self._intake.placement.move_on(state, accumulator)
        return taken

    def ready_topic(self, topic: str, tally: Tally) -> Topic:
        """The topic, once there is room for more; sends meanwhile what may leave."""
        self._intake.gate.check_sending()
        if self._accumulator.is_full:
            self._intake.await_room()
        elif self._accumulator.ready:
            self._carrier.step()
        tally.is_over()
        return self._intake.placement.topic(topic)


_BYTES: set[type] = {bytes, type(None)}


def longest(items: list[bytes | None]) -> int:
    """The length of the longest item."""
    return max(map(len, filter(None, items)), default=0)


def chunks(records: Iterable[Any]) -> Iterator[tuple[list[Any], bool]]:
    """Cut an iterable into lists, shorter ones if it is slow; and whether it is."""
    iterator, size = iter(records), _FIRST_CHUNK
    while True:
        begin = time.monotonic()
        chunk = list(islice(iterator, size))
        if not chunk:
            return
        is_slow = time.monotonic() - begin > _SLOW_SECONDS
        size = max(1, size // 8) if is_slow else min(size * 2, _CHUNK)
        yield chunk, is_slow


def _as_record(item: Any) -> ProducerRecord:
    if isinstance(item, ProducerRecord):
        return item
    if isinstance(item, tuple):
        if len(item) != 2:
            raise SerializationError(
                f"an item of send_many is a value, a (key, value) pair or a ProducerRecord, not "
                f"a tuple of {len(item)}"
            )
        return ProducerRecord("", item[1], item[0])
    return ProducerRecord("", item)


def delivery_error(failures: Sequence[Failure], report: SendReport | None = None) -> DeliveryError:
    """The error for records that were not delivered."""
    count = sum(failure.count for failure in failures)
    done = "" if report is None else f" ({report.count} were)"
    return DeliveryError(
        f"{count} records were not delivered{done}; the first error: {failures[0].error}",
        failures,
        report=report,
    )
