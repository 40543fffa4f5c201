"""Writes: Arrow columns to Kafka by the executors, at least once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from kclient.errors import ConfigError, SerializationError
from kclient.producer import Producer
from kclient.spark.boundary import told_plainly
from kclient.spark.options import WriteOptions

_TEXT: tuple[type[DataType], ...] = (StringType, BinaryType)
_TYPES: dict[str, tuple[type[DataType], ...]] = {
    "key": _TEXT,
    "value": _TEXT,
    "topic": (StringType,),
    "partition": (IntegerType,),
    "headers": (ArrayType,),
}
_COLUMNS = ("value", "key", "partition", "headers")


@dataclass
class Written(WriterCommitMessage):
    """What a task wrote."""

    rows: int


class KafkaWriter(DataSourceArrowWriter):
    """A batch write: all rows are written when it ends well.

    A task that is tried again writes its rows again.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_write_schema(schema, options)
        self._options = options

    @told_plainly
    def write(self, iterator: Iterator[Any]) -> Written:
        """Write a task's rows, on an executor. Raises DeliveryError and others."""
        return Written(write_rows(self._options, iterator))


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """The same for a stream: each micro-batch is written at least once."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_write_schema(schema, options)
        self._options = options

    @told_plainly
    def write(self, iterator: Iterator[Any]) -> Written:
        """Write a task's rows, on an executor. Raises DeliveryError and others."""
        return Written(write_rows(self._options, iterator))


def write_rows(options: WriteOptions, batches: Iterator[Any]) -> int:
    """Write all rows of a task and return how many; all are acknowledged."""
    with Producer(**options.client) as producer:
        return send_rows(producer, options.topic, batches)


def send_rows(producer: Producer, topic: str | None, batches: Iterator[Any]) -> int:
    """Send all rows, to ``topic`` or where their column says, and return how many."""
    if topic is not None:
        some = (batch.select(_present(batch)) for batch in batches)
        return producer.send_arrow(topic, some).count
    sent = 0
    for batch in batches:
        for name, rows in _by_topic(batch):
            sent += producer.send_arrow(name, rows.select(_present(rows))).count
    return sent


def _present(batch: Any) -> list[str]:
    return [name for name in _COLUMNS if name in batch.schema.names]


def _by_topic(batch: Any) -> Iterator[tuple[str, Any]]:
    column = batch.column("topic")
    if column.null_count:
        raise SerializationError(
            "a row has no topic: fill the column 'topic', or set the option topic"
        )
    names = pc.unique(column).to_pylist()
    for name in names:
        yield name, batch if len(names) == 1 else batch.filter(pc.equal(column, pa.scalar(name)))


def check_write_schema(schema: StructType, options: WriteOptions) -> None:
    """Refuse columns that cannot be written; those with other names are left out.

    Raises ConfigError.
    """
    found = {field.name: field.dataType for field in schema.fields}
    if "value" not in found:
        raise ConfigError(
            f"there is no column 'value' to write to Kafka; the columns are {list(found)}"
        )
    for name, kinds in _TYPES.items():
        if name in found and not isinstance(found[name], kinds):
            expected = " or ".join(kind.typeName() for kind in kinds)
            raise ConfigError(
                f"the column {name} is {found[name].simpleString()}, and must be {expected} to be "
                "written to Kafka: cast it, or make it JSON with to_json"
            )
    _check_headers(found.get("headers"))
    if "topic" not in found and options.topic is None:
        raise ConfigError("there is neither an option topic nor a column 'topic' to write to")


def _check_headers(kind: Any) -> None:
    if kind is None:
        return
    pair = kind.elementType
    types = [field.dataType for field in pair.fields] if isinstance(pair, StructType) else []
    names = [field.name for field in pair.fields] if isinstance(pair, StructType) else []
    if names != ["key", "value"] or types != [StringType(), BinaryType()]:
        raise ConfigError(
            f"the column headers is {kind.simpleString()}, and must be "
            "array<struct<key:string,value:binary>>"
        )
