"""Columns between Kafka and Spark: the schema of the connector, and Arrow batches of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kclient.errors import ConfigError

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
HEADERS = StructField("headers", ArrayType(_HEADER))
SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
"""What every record has; ``headers`` come with ``includeHeaders``."""

_OURS = {"timestampType": "timestamp_type"}


def read_schema(*, include_headers: bool) -> StructType:
    """The schema of a read."""
    return StructType([*SCHEMA.fields, HEADERS]) if include_headers else SCHEMA


def check_read_schema(wanted: StructType) -> None:
    """Refuse a user's schema, which may have fewer columns, if it has others or other types.

    Raises ConfigError.
    """
    known = {field.name: field.dataType for field in (*SCHEMA.fields, HEADERS)}
    for field in wanted.fields:
        if field.name not in known:
            raise ConfigError(
                f"there is no column {field.name!r} in Kafka's records; there are {list(known)}"
            )
        if field.dataType != known[field.name]:
            raise ConfigError(
                f"the column {field.name} is {known[field.name].simpleString()}, not "
                f"{field.dataType.simpleString()}: cast it after reading"
            )


def arrow_schema(wanted: StructType) -> Any:
    """The ``pyarrow.Schema`` that Spark expects for a schema, to the letter."""
    return to_arrow_schema(wanted, timezone="UTC")


def for_spark(batch: Any, target: Any) -> Any:
    """A batch of ``RangeReader`` with the columns, order and types of ``target``."""
    columns = []
    for field in target:
        column = batch.column(_OURS.get(field.name, field.name))
        if field.name == "headers":
            column = _null_if_empty(column)
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _null_if_empty(headers: Any) -> Any:
    """As the connector has it: a record without headers has null."""
    import pyarrow.compute as pc

    has_any = pc.greater(pc.list_value_length(headers), 0)
    return pc.if_else(has_any, headers, pa.scalar(None, type=headers.type))
