"""Streams: offsets that Spark keeps in its checkpoint, and what has come since."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from kclient.errors import ConfigError
from kclient.spark.boundary import told_plainly
from kclient.spark.offsets import OffsetRange, Offsets, StoredOffsets, limit_rows, load, plan, store
from kclient.spark.options import ReadOptions
from kclient.spark.tasks import RangePartition, read_partition
from kclient.spark.topics import SourceTopics

_log = logging.getLogger(__name__)


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what comes. Spark calls it on the driver, and pickles it to the executors.

    Offsets are kept as ``{"topic": {"0": 12}}``, as Spark's own connector does, so a query
    can change between the two on the same checkpoint.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._topics: SourceTopics | None = None
        self._target: Offsets | None = None
        """Where a query that reads what is available now ends."""
        self._known: Offsets = {}
        self._batch_at = time.monotonic()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_topics": None}  # executors have connections of their own

    @told_plainly
    def initialOffset(self) -> StoredOffsets:
        """Where a new query starts."""
        topics = self._cluster()
        return store(topics.start(topics.partitions()))

    @told_plainly
    def prepareForTriggerAvailableNow(self) -> None:
        """Have the query end at what is there now."""
        topics = self._cluster()
        self._target = topics.latest(topics.partitions())

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit by the option maxOffsetsPerTrigger, if it is set."""
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @told_plainly
    def latestOffset(self, start: StoredOffsets, limit: ReadLimit) -> StoredOffsets:
        """Where the next batch ends: at what is there, or at ``limit`` if that is sooner.

        Raises OffsetOutOfRange if records that were not read are gone, unless failOnDataLoss
        is false.
        """
        topics = self._cluster()
        starts = load(start)
        ends = self._ends(topics, starts)
        self._known = ends
        starts.update(topics.earliest([tp for tp in ends if tp not in starts]))
        if not self._is_enough(starts, ends, limit):
            return start
        if isinstance(limit, ReadMaxRows):
            ends = limit_rows(starts, ends, limit.max_rows)
        if ends != load(start):
            self._batch_at = time.monotonic()
        return store(ends)

    def _ends(self, topics: SourceTopics, starts: Offsets) -> Offsets:
        if self._target is not None:
            found = dict(self._target)
        else:
            found = topics.latest(topics.partitions())
        for tp in sorted(starts.keys() - found.keys()):
            topics.tell_loss(f"{tp.topic}[{tp.partition}] is gone, of which {starts[tp]} was next")
        for tp, offset in starts.items():
            if found.get(tp, offset) < offset:
                topics.tell_loss(
                    f"{tp.topic}[{tp.partition}] ends at offset {found[tp]} now, and {offset} "
                    "was next"
                )
                found[tp] = offset if self._target is not None else found[tp]
        return found

    def _is_enough(self, starts: Offsets, ends: Offsets, limit: ReadLimit) -> bool:
        """Whether there is as much as minOffsetsPerTrigger wants, or it has taken too long."""
        least = self._options.min_offsets_per_trigger
        if least is None or self._target is not None or isinstance(limit, ReadAllAvailable):
            return True
        is_late = time.monotonic() - self._batch_at >= self._options.max_trigger_seconds
        return is_late or sum(max(0, ends[tp] - starts[tp]) for tp in ends) >= least

    def reportLatestOffset(self) -> StoredOffsets | None:
        """The ends last seen, for the progress that Spark reports."""
        return store(self._known) if self._known else None

    @told_plainly
    def partitions(self, start: StoredOffsets, end: StoredOffsets) -> list[InputPartition]:
        """The ranges of a batch; one that is repeated has the same."""
        starts, ends = load(start), load(end)
        topics = self._cluster()
        added = topics.earliest([tp for tp in ends if tp not in starts])
        for tp, offset in added.items():
            if offset > 0:
                topics.tell_loss(
                    f"{tp.topic}[{tp.partition}] is new and begins at offset {offset}, not 0"
                )
        for tp in sorted(starts.keys() - ends.keys()):
            topics.tell_loss(f"{tp.topic}[{tp.partition}] is gone, of which {starts[tp]} was next")
        starts.update(added)
        ranges = plan(
            (OffsetRange(tp, starts[tp], ends[tp]) for tp in sorted(ends)),
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )
        return [RangePartition(span) for span in ranges]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The records of one range, on an executor."""
        return read_partition(self._options, self._schema, partition)

    @told_plainly
    def commit(self, end: StoredOffsets) -> None:
        """Spark has done with what is before ``end``: tell the group of kclient.commitGroup."""
        self._cluster().commit(load(end))

    def stop(self) -> None:
        """Close the connections."""
        if self._topics is not None:
            self._topics.close()
            self._topics = None

    def _cluster(self) -> SourceTopics:
        if self._topics is None:
            self._topics = SourceTopics(self._options)
        return self._topics


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stands in for a stream that cannot be, and says why when it is first used.

    Spark 4.2 hides whatever is raised while it makes a reader behind an error of its own.
    """

    def __init__(self, error: ConfigError) -> None:
        self._error = error

    @told_plainly
    def initialOffset(self) -> StoredOffsets:
        """Raise the reason."""
        raise self._error

    @told_plainly
    def prepareForTriggerAvailableNow(self) -> None:
        """Raise the reason."""
        raise self._error

    @told_plainly
    def getDefaultReadLimit(self) -> ReadLimit:
        """Raise the reason."""
        raise self._error

    @told_plainly
    def latestOffset(self, start: StoredOffsets, limit: ReadLimit) -> StoredOffsets:
        """Raise the reason."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Raise the reason."""
        raise self._error
