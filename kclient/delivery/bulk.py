"""``send_many``: any iterable, chunk by chunk, with no lock, future or call per record."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, cast

from kclient.delivery.batch import Batch
from kclient.errors import KafkaError, SerializationError
from kclient.types import ProducerRecord, TopicPartition

CHUNK = 2048
"""Records looked at together."""


@dataclass(frozen=True)
class SendReport:
    """What ``send_many`` wrote: how many records, and the first and last offset by partition."""

    count: int
    offsets: dict[TopicPartition, tuple[int, int]]


@dataclass(frozen=True)
class Failure:
    """Records of one batch that were not delivered, and why."""

    topic: str
    partition: int
    count: int
    error: KafkaError


class Tally:
    """Counts what became of the records of one call; others' may share their batches."""

    def __init__(self) -> None:
        self.open: dict[Batch, tuple[int, int]] = {}
        """Batches without an outcome: the index of our first record, and behind our last."""
        self.count = 0
        self.offsets: dict[TopicPartition, tuple[int, int]] = {}
        self.failures: list[Failure] = []

    def watch(self, batch: Batch, first: int) -> None:
        """Count the records from index ``first``, just added to a batch; the lock must be held."""
        end = batch.count
        self.count += end - first
        known = self.open.get(batch)
        if known is None:
            batch.listeners.append(self._done)
        self.open[batch] = (first if known is None else known[0]), end

    def _done(self, batch: Batch) -> None:
        first, end = self.open.pop(batch)
        low, high = batch.outcome(first, -1), batch.outcome(end - 1, -1)
        error = low if isinstance(low, KafkaError) else high
        if isinstance(low, KafkaError) or isinstance(high, KafkaError):
            failure = Failure(
                batch.tp.topic, batch.tp.partition, end - first, cast(KafkaError, error)
            )
            self.failures.append(failure)
            return
        before = self.offsets.get(batch.tp, (low.offset, high.offset))
        self.offsets[batch.tp] = min(before[0], low.offset), max(before[1], high.offset)


class Run(NamedTuple):
    """Records of one kind: values, or pairs of key and value."""

    items: list[Any]
    are_pairs: bool


def runs(records: Iterable[Any]) -> Iterator[Run | list[ProducerRecord]]:
    """Cut an iterable into chunks whose items are all of one kind.

    Raises SerializationError for an item that is nothing of the kind.
    """
    iterator = iter(records)
    while chunk := list(islice(iterator, CHUNK)):
        kinds = set(map(type, chunk))
        if kinds <= _VALUES:
            yield Run(chunk, are_pairs=False)
        elif kinds == _PAIRS and set(map(len, chunk)) == {2}:
            yield Run(chunk, are_pairs=True)
        else:
            yield [_as_record(item) for item in chunk]


_VALUES: set[type] = {bytes, type(None)}
_PAIRS: set[type] = {tuple}


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


def now_ms() -> int:
    """The time for records that were not given one, in ms since the epoch."""
    return int(time.time() * 1000)
