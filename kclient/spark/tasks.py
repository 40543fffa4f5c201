"""What an executor does for a read: one range of offsets, as Arrow batches for Spark."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from kclient.errors import OffsetOutOfRange
from kclient.fetch.range_reader import RangeReader
from kclient.spark.boundary import told_plainly_each
from kclient.spark.columns import arrow_schema, for_spark
from kclient.spark.offsets import OffsetRange
from kclient.spark.options import LOSS_ADVICE, ReadOptions


class RangePartition(InputPartition):
    """A range of offsets as Spark's scheduler carries it."""

    def __init__(self, span: OffsetRange) -> None:
        super().__init__(tuple(span))
        self.span = span

    def __repr__(self) -> str:
        (topic, partition), start, end = self.span
        return f"RangePartition({topic}[{partition}] {start} to {end})"


def read_partition(
    options: ReadOptions, schema: StructType, partition: InputPartition
) -> Iterator[Any]:
    """The Arrow batches of a partition; of none if Spark made it up for an empty plan."""
    if not isinstance(partition, RangePartition):
        return iter(())
    return told_plainly_each(_read(options, schema, partition.span))


def _read(
    options: ReadOptions, schema: StructType, span: OffsetRange
) -> Generator[Any, None, None]:
    target = arrow_schema(schema)
    skip = not options.fail_on_data_loss
    with RangeReader(**options.client) as reader:
        try:
            for batch in reader.read(span.tp, span.start, span.end, skip_lost=skip):
                yield for_spark(batch, target)
        except OffsetOutOfRange as error:
            raise OffsetOutOfRange(f"{error}; {LOSS_ADVICE}") from error
