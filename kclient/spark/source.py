"""``format("kclient")``: the data source that Spark knows by name."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from kclient.errors import ConfigError
from kclient.spark.boundary import told_plainly
from kclient.spark.columns import check_read_schema, read_schema
from kclient.spark.exactly_once import ExactlyOnceStreamWriter, ExactlyOnceWriter
from kclient.spark.options import read_options, write_options
from kclient.spark.reader import KafkaReader
from kclient.spark.stream import KafkaStreamReader, RefusedStream
from kclient.spark.writer import KafkaStreamWriter, KafkaWriter


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
    def reader(self, schema: StructType) -> KafkaReader:
        """A batch read. Raises ConfigError for wrong options or columns."""
        check_read_schema(schema)
        return KafkaReader(read_options(self.options, is_streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A stream; wrong options or columns are told by its first call."""
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
        kind = ExactlyOnceWriter if options.is_exactly_once else KafkaWriter
        return kind(options, schema)

    @told_plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """A stream to Kafka. Raises ConfigError for wrong options or columns."""
        options = write_options(self.options)
        kind = ExactlyOnceStreamWriter if options.is_exactly_once else KafkaStreamWriter
        return kind(options, schema)
