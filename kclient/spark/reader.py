"""Batch reads: planned once by the driver, fetched by the executors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kclient.errors import ConfigError
from kclient.spark.boundary import told_plainly
from kclient.spark.offsets import OffsetRange, plan
from kclient.spark.options import ReadOptions
from kclient.spark.tasks import RangePartition, read_partition
from kclient.spark.topics import SourceTopics


class KafkaReader(DataSourceReader):
    """Reads what is between two bounds now."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    @told_plainly
    def partitions(self) -> list[InputPartition]:
        """The ranges to read. Raises TopicNotFound, KafkaTimeout, ConfigError."""
        with SourceTopics(self._options) as topics:
            tps = topics.partitions()
            starts, ends = topics.start(tps), topics.end(tps)
        for tp in tps:
            if starts[tp] > ends[tp]:
                raise ConfigError(
                    f"{tp.topic}[{tp.partition}] would be read from offset {starts[tp]} to "
                    f"{ends[tp]}, which is before it: see startingOffsets and endingOffsets"
                )
        ranges = plan(
            (OffsetRange(tp, starts[tp], ends[tp]) for tp in tps),
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )
        return [RangePartition(span) for span in ranges]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The records of one range, on an executor."""
        return read_partition(self._options, self._schema, partition)
