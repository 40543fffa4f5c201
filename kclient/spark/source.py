"""``format("kclient")``: the data source that Spark knows by name.

Spark makes a process for each step of a plan, so what a step does not need is not imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)

from kclient.errors import ConfigError
from kclient.spark.boundary import told_plainly
from kclient.spark.columns import check_read_schema, read_schema
from kclient.spark.options import read_options, write_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class KafkaSource(DataSource):
    """Kafka by ``kclient``: reads and writes, in batches and streams.

    The options are those of Spark's own Kafka connector; see ``kclient.spark.options``.
    """

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "kclient"

    @told_plainly
    def schema(self) -> StructType:
        """The connector's columns. Raises ConfigError for wrong options."""
        parsed = read_options(self.options, is_streaming=None)
        return read_schema(include_headers=parsed.include_headers)

    @told_plainly
    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read. Raises ConfigError for wrong options or columns."""
        from kclient.spark.reader import KafkaReader

        check_read_schema(schema)
        return KafkaReader(read_options(self.options, is_streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A stream; wrong options or columns are told by its first call."""
        from kclient.spark.stream import KafkaStreamReader, RefusedStream

        try:
            check_read_schema(schema)
            return KafkaStreamReader(read_options(self.options, is_streaming=True), schema)
        except ConfigError as error:
            return RefusedStream(error)

    @told_plainly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A batch write. Raises ConfigError for wrong options, columns or modes."""
        if overwrite:
            raise ConfigError("Kafka's topics are only appended to: use mode('append')")
        options = write_options(self.options)
        if options.is_exactly_once:
            from kclient.spark.exactly_once import ExactlyOnceWriter

            return ExactlyOnceWriter(options, schema)
        from kclient.spark.writer import KafkaWriter

        return KafkaWriter(options, schema)

    @told_plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """A stream to Kafka. Raises ConfigError for wrong options or columns."""
        options = write_options(self.options)
        if options.is_exactly_once:
            from kclient.spark.exactly_once import ExactlyOnceStreamWriter

            return ExactlyOnceStreamWriter(options, schema)
        from kclient.spark.writer import KafkaStreamWriter

        return KafkaStreamWriter(options, schema)
