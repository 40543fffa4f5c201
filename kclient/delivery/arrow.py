"""``send_arrow``: columns to record batches, with no Python object for a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kclient.delivery.bulk import Bulk, SendReport, Tally
from kclient.delivery.intake import Intake
from kclient.delivery.partitioner import spread_rows
from kclient.delivery.placement import Topic
from kclient.errors import SerializationError, broker_error
from kclient.records import ArrowRows

COLUMNS = ("value", "key", "partition", "timestamp", "headers")
_UNKNOWN_PARTITION = 3


class ArrowBulk:
    """Writes tables and batches of Arrow columns to a topic."""

    def __init__(self, bulk: Bulk, intake: Intake) -> None:
        self._bulk = bulk
        self._intake = intake

    def send(self, topic: str, data: Any, seconds: float) -> SendReport:
        """Write all rows, and wait until all are acknowledged. Raises as ``Bulk.send``."""
        return self._bulk.send_by(
            topic, lambda tally: self._append_all(topic, record_batches(data), tally), seconds
        )

    def _append_all(self, topic: str, batches: Iterable[Any], tally: Tally) -> None:
        for batch in batches:
            if not batch.num_rows:
                continue
            columns = _columns(batch, topic)
            self._intake.check_size(topic, _largest(columns))
            state = self._bulk.ready_topic(topic, tally)
            for chosen, rows in _by_partition(columns, state):
                start = 0
                while start < len(rows):
                    state = self._bulk.ready_topic(topic, tally)
                    start = self._bulk.append_run(state, chosen, rows, start, tally)
            if tally.failures:
                return  # more would fail alike


def record_batches(data: Any) -> Iterator[Any]:
    """The ``pyarrow.RecordBatch``es of a table, a batch, or an iterable of such.

    Raises SerializationError for anything else.
    """
    import pyarrow as pa

    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        yield from data.to_batches()
    elif isinstance(data, Iterable) and not isinstance(data, (bytes, str, dict)):
        for each in data:
            if not isinstance(each, (pa.RecordBatch, pa.Table)):
                raise _not_arrow(each)
            yield from record_batches(each)
    else:
        raise _not_arrow(data)


def _not_arrow(data: object) -> SerializationError:
    return SerializationError(
        f"send_arrow takes a pyarrow.Table, a RecordBatch or an iterable of them, not "
        f"{type(data).__name__}"
    )


def _columns(batch: Any, topic: str) -> dict[str, Any]:
    names = batch.schema.names
    for name in names:
        if name not in COLUMNS or names.count(name) > 1:
            raise SerializationError(
                f"a column {name!r} cannot be written to topic {topic!r}: columns are "
                f"{', '.join(COLUMNS)}, each once",
                topic=topic,
            )
    if "value" not in names:
        raise SerializationError(
            f"there is no column 'value' to write to topic {topic!r}, only {names}", topic=topic
        )
    return dict(zip(names, batch.columns, strict=True))


def _largest(columns: dict[str, Any]) -> int:
    """Bytes that no record's key and value exceed; 0 where the types are refused later."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = 0
    for name in ("key", "value"):
        column = columns.get(name)
        if column is not None and not pa.types.is_null(column.type):
            try:
                found += pc.max(pc.binary_length(column)).as_py() or 0
            except pa.ArrowNotImplementedError:
                return 0
    return found


def _by_partition(columns: dict[str, Any], state: Topic) -> Iterator[tuple[int | None, ArrowRows]]:
    """Rows by partition, None for those that go anywhere; in order within each."""
    import pyarrow.compute as pc

    placed = _placed(columns, state)
    if placed is None or placed.null_count == len(placed):
        yield None, _rows(columns)
        return
    order = pc.array_sort_indices(placed, null_placement="at_end")  # a stable sort
    counts = sorted(
        ((entry["values"].as_py(), entry["counts"].as_py()) for entry in pc.value_counts(placed)),
        key=lambda entry: (entry[0] is None, entry[0]),
    )
    if len(counts) > 1:
        columns = {
            name: column.take(order) for name, column in columns.items() if name != "partition"
        }
    start = 0
    for chosen, count in counts:
        yield chosen, _rows({name: each.slice(start, count) for name, each in columns.items()})
        start += count


def _placed(columns: dict[str, Any], state: Topic) -> Any:
    """Each row's partition as an Arrow array with nulls; None if all may go anywhere."""
    import pyarrow as pa
    import pyarrow.compute as pc

    keys, given = columns.get("key"), columns.get("partition")
    by_key = None
    if keys is not None or given is None or given.null_count:
        by_key = spread_rows(state.partitioner, _rows(columns), keys, state.count, state.available)
    if given is None:
        return by_key
    try:
        given = given.cast(pa.int32())
    except pa.ArrowInvalid as error:
        raise SerializationError(f"the column 'partition' is no whole number: {error}") from None
    bounds = pc.min_max(given).as_py()
    for number in (bounds["min"], bounds["max"]):
        if number is not None and not 0 <= number < state.count:
            raise broker_error(
                _UNKNOWN_PARTITION,
                f"topic {state.name!r} has no partition {number}: it has {state.count}, from 0",
                topic=state.name,
                partition=number,
            )
    return given if by_key is None else pc.coalesce(given, by_key)


def _rows(columns: dict[str, Any]) -> ArrowRows:
    return ArrowRows(
        columns["value"], columns.get("key"), columns.get("timestamp"), columns.get("headers")
    )
