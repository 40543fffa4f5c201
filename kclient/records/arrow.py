"""Records as Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from kclient.types import Record


@lru_cache(maxsize=1)
def schema() -> Any:
    """Return the ``pyarrow.Schema`` of every table of records."""
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string(), nullable=False), ("value", pa.binary())])
    return pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", tz="UTC")),
            ("timestamp_type", pa.int32()),
            ("headers", pa.list_(header)),
        ]
    )


def table(records: Sequence[Record]) -> Any:
    """Turn records into a ``pyarrow.Table`` of ``schema()``; timestamp -1 becomes null."""
    import pyarrow as pa

    rows = zip(*records, strict=True) if records else ((),) * len(Record._fields)
    topics, partitions, offsets, timestamps, kinds, keys, values, headers, _ = rows
    columns = (
        keys,
        values,
        topics,
        partitions,
        offsets,
        [None if timestamp == -1 else timestamp for timestamp in timestamps],
        kinds,
        headers,
    )
    arrays = [
        pa.array(column, type=field.type) for column, field in zip(columns, schema(), strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema())


def joined(tables: Sequence[Any], start_offset: int) -> Any:
    """Put tables one below the other, without rows before ``start_offset``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = pa.concat_tables(tables) if tables else table([])
    if start_offset <= 0 or not whole.num_rows:
        return whole
    early = pc.less(whole["offset"], start_offset)
    count = pc.sum(early).as_py()
    if pc.all(early.slice(0, count)).as_py():  # as always, unless offsets are out of order
        return whole.slice(count)  # which copies nothing
    return whole.filter(pc.invert(early))
