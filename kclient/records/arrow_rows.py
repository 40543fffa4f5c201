"""Rows of Arrow columns to be written: checked once, then appended to many batches.

A column is laid open as addresses for the compiled writer, and as views for the pure one.
Neither makes an Arrow scalar for each cell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kclient.errors import SerializationError
from kclient.types import Header


class Layout(NamedTuple):
    """Where a column lies in memory; an address of 0 means that there is no such buffer."""

    validity: int
    numbers: int
    """Of 64 bits each if ``wide``, else of 32: timestamps, or offsets into what follows."""
    data: int
    size: int
    """How much there is to point into: bytes of ``data``, or elements of lists."""
    wide: bool
    shift: int
    """Rows of the buffers before the column's own first one."""


class _Column:
    """One column with its buffers, which live as long as it does."""

    def __init__(self, array: Any, *, wide: bool, data: Any = None, size: int = 0) -> None:
        validity, numbers = array.buffers()[:2]
        self._buffers = (validity, numbers, data)
        self.layout = Layout(
            _address(validity), _address(numbers), _address(data), size, wide, array.offset
        )
        self._shift = array.offset
        self._validity = None if validity is None else _view(validity)
        view = _view(numbers)
        width = 8 if wide else 4
        self._numbers = view[: len(view) // width * width].cast("q" if wide else "i")
        self._data = _view(data)

    def number(self, row: int) -> int | None:
        """The number in a row."""
        pos = self._shift + row
        return None if self._is_null(pos) else self._numbers[pos]

    def elements(self, row: int) -> range:
        """The elements of the list in a row; a null list has none."""
        pos = self._shift + row
        return range(0) if self._is_null(pos) else range(*self._numbers[pos : pos + 2])

    def cell(self, row: int) -> bytes | None:
        """The bytes in a row."""
        pos = self._shift + row
        if self._is_null(pos):
            return None
        return bytes(self._data[self._numbers[pos] : self._numbers[pos + 1]])

    def _is_null(self, pos: int) -> bool:
        return self._validity is not None and not self._validity[pos >> 3] >> (pos & 7) & 1


class ArrowRows:
    """Keys, values, timestamps and headers of records, as columns of equal length.

    All are ``pyarrow.Array``s. Keys and values hold bytes or text of any width; timestamps
    are Arrow timestamps, or integers in ms; headers are lists of structs of key and value.
    Raises SerializationError for other types, lengths that differ, damaged columns.
    """

    def __init__(
        self, values: Any, keys: Any = None, timestamps: Any = None, headers: Any = None
    ) -> None:
        columns = (values, keys, timestamps, headers)
        if any(column is not None and len(column) != len(values) for column in columns):
            raise SerializationError("columns of records differ in length")
        self._length = len(values)
        self._values = _bytes_column("values", values)
        self._keys = None if keys is None else _bytes_column("keys", keys)
        self._timestamps = None if timestamps is None else _time_column(timestamps)
        self._headers = None if headers is None else _header_columns(headers)

    def __len__(self) -> int:
        return self._length

    @property
    def layouts(self) -> tuple[Layout | None, ...]:
        """Of keys, values, timestamps, lists of headers, the headers' keys and values."""
        lists = self._headers or (None, None, None)
        columns = (self._keys, self._values, self._timestamps, *lists)
        return tuple(None if column is None else column.layout for column in columns)

    def key(self, row: int) -> bytes | None:
        """The key in this row."""
        return None if self._keys is None else self._keys.cell(row)

    def record(
        self, row: int, timestamp: int
    ) -> tuple[bytes | None, bytes | None, list[Header], int]:
        """Key, value, headers and timestamp (ms) of a row; ``timestamp`` where it has none.

        Raises SerializationError for a header without a key.
        """
        time = None if self._timestamps is None else self._timestamps.number(row)
        headers = self._row_headers(row) if self._headers else []
        return self.key(row), self._values.cell(row), headers, timestamp if time is None else time

    def _row_headers(self, row: int) -> list[Header]:
        assert self._headers is not None
        lists, keys, values = self._headers
        found: list[Header] = []
        for index in lists.elements(row):
            key = keys.cell(index)
            if key is None:
                raise header_without_key(row)
            found.append((key.decode(), values.cell(index)))
        return found


def header_without_key(row: int) -> SerializationError:
    """Make the error for a header that has no key, or is null."""
    return SerializationError(f"a header in row {row} has no key")


def _address(buffer: Any) -> int:
    return 0 if buffer is None else int(buffer.address)


def _view(buffer: Any) -> memoryview:
    return memoryview(b"" if buffer is None else buffer).cast("B")


def _bytes_column(name: str, column: Any) -> _Column:
    import pyarrow as pa

    wide = pa.large_binary()
    near = {pa.binary(): pa.binary(), pa.string(): pa.binary()}  # these need no copy
    array = _cast(name, column, lambda kind: near.get(kind, wide))
    data = array.buffers()[2]
    size = 0 if data is None else data.size
    return _Column(array, wide=array.type == wide, data=data, size=size)


def _time_column(column: Any) -> _Column:
    import pyarrow as pa

    def millis(kind: Any) -> Any:
        return kind if pa.types.is_integer(kind) else pa.timestamp("ms", getattr(kind, "tz", None))

    array = _cast("timestamps", column, millis)
    return _Column(_cast("timestamps", array, lambda _: pa.int64()), wide=True)


def _header_columns(column: Any) -> tuple[_Column, _Column, _Column]:
    """The lists, and the keys and values that they point into."""
    import pyarrow as pa

    pair = pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])
    lists = _cast("headers", column, lambda _: pa.large_list(pair))
    keys, values = lists.values.flatten()  # a null pair becomes a pair of nulls
    return (
        _Column(lists, wide=True, size=len(lists.values)),
        _bytes_column("headers", keys),
        _bytes_column("headers", values),
    )


def _cast(name: str, column: Any, target: Callable[[Any], Any]) -> Any:
    """Give a sound column another type; what a coarser time cannot hold is cut off."""
    import pyarrow as pa

    if not isinstance(column, pa.Array):
        raise SerializationError(f"{name} are a pyarrow.Array, not {type(column).__name__}")
    kind = target(column.type)
    try:
        column.validate(full=True)
        return column.cast(kind, safe=not pa.types.is_timestamp(kind))
    except pa.ArrowException as error:
        raise SerializationError(
            f"{name} of type {column.type} cannot be written: {error}"
        ) from None
