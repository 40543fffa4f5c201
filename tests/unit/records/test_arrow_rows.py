"""Arrow columns written without a Python object for each cell: the same bytes as one by one."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.errors import SerializationError, UnsupportedVersion
from kclient.records import ArrowRows, decode, encode, interface, open_batch, to_arrow
from kclient.types import Header, ProducerRecord

NOW = 1_700_000_000_000
FAR = 1 << 30
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
DATA = st.none() | st.binary(max_size=200)
LISTS = st.none() | st.lists(st.tuples(st.text(max_size=8), DATA), max_size=3)
TIMES = st.none() | st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 1 << 14)
ROWS = st.lists(st.tuples(DATA, DATA, TIMES, LISTS), min_size=1, max_size=12)

Row = tuple["bytes | None", "bytes | None", "int | None", "list[Header] | None"]


def columns(rows: list[Row], kind: Any = None) -> list[Any]:
    """Keys, values, timestamps and headers."""
    keys, values, times, headers = zip(*rows, strict=True)
    kind = kind or pa.binary()
    return [
        pa.array(keys, kind),
        pa.array(values, kind),
        pa.array(times, pa.int64()),
        pa.array(headers, HEADERS),
    ]


@given(
    ROWS,
    st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 900) | st.just(FAR),
)
def test_rows_are_their_records_one_by_one(
    rows: list[Row], kind: Any, skip: int, start: int, limit: int
) -> None:
    keys, values, times, headers = (column.slice(skip) for column in columns(rows, kind))
    writer, wanted, ahead = open_batch(), open_batch(), open_batch()
    for key, value, time, pairs in rows[skip:][start:]:
        record = (key, value, pairs or (), NOW if time is None else time)
        if ahead.append(*record) > limit and wanted.count:
            break
        wanted.append(*record)
    end = writer.append_arrow(ArrowRows(values, keys, times, headers), start, NOW, limit)
    assert (end, writer.count) == (start + wanted.count, wanted.count)
    assert (writer.size, writer.seal()) == (wanted.size, wanted.seal())


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_columns_fill_one_batch_after_the_other(magic: int) -> None:
    values = [b"%d" % n for n in range(1000)]
    rows = ArrowRows(pa.array(values), pa.array([b"k"] * 1000))
    found: list[bytes | None] = []
    batches = pos = 0
    while pos < len(rows):
        writer = open_batch(magic=magic)
        pos = writer.append_arrow(rows, pos, NOW, 1000)
        assert writer.size <= 1000
        found += [record.value for record in decode(writer.seal())]
        batches += 1
    assert found == values
    assert batches > 5


def test_a_table_that_was_read_can_be_written() -> None:
    given = [
        ProducerRecord("t", b"v%d" % n, b"k" * n, [("h", b"")] * (n % 3), None, NOW + n)
        for n in range(50)
    ]
    table = to_arrow(encode(given)).combine_chunks()
    names = ("value", "key", "timestamp", "headers")
    rows = ArrowRows(*(table[name].chunk(0) for name in names))
    writer = open_batch()
    assert writer.append_arrow(rows, 0, 0, FAR) == 50
    assert writer.seal() == encode(given)


def test_only_values_are_needed() -> None:
    writer, other = open_batch(), open_batch()
    assert writer.append_arrow(ArrowRows(pa.array([b"a", None])), 0, NOW, FAR) == 2
    other.append_values([b"a", None], 0, NOW, FAR)
    assert writer.seal() == other.seal()
    assert writer.append_arrow(ArrowRows(pa.array([], pa.binary())), 0, NOW, FAR) == 0
    assert writer.append_arrow(ArrowRows(pa.array([b"a"])), 5, NOW, FAR) == 5
    assert writer.append_arrow(ArrowRows(pa.nulls(3)), 0, NOW, FAR) == 3


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(2),
        pa.dictionary(pa.int8(), pa.string()),
    ],
    ids=str,
)
def test_bytes_and_text_of_any_kind(kind: Any) -> None:
    writer = open_batch()
    writer.append_arrow(ArrowRows(pa.array(["ab", None, "cd"]).cast(kind)), 0, NOW, FAR)
    assert [record.value for record in decode(writer.seal())] == [b"ab", None, b"cd"]


@pytest.mark.parametrize(
    ("kind", "number", "wanted"),
    [
        (pa.timestamp("s"), 7, 7000),
        (pa.timestamp("ms"), 7, 7),
        (pa.timestamp("us", tz="Europe/Berlin"), 7999, 7),
        (pa.timestamp("ns"), 7_999_999, 7),
        (pa.int32(), 7, 7),
        (pa.date32(), 1, 86_400_000),
    ],
    ids=str,
)
def test_times_of_any_unit(kind: Any, number: int, wanted: int) -> None:
    times = pa.array([number, None], kind)
    writer = open_batch()
    writer.append_arrow(ArrowRows(pa.array([b"", b""]), None, times), 0, NOW, FAR)
    assert [record.timestamp for record in decode(writer.seal())] == [wanted, NOW]


BAD = pa.array([[("a", b"")], [("b", b""), None], [("c", b"")]], HEADERS)


@pytest.mark.parametrize("headers", [BAD, BAD.slice(0, 3)])
def test_a_wrong_row_ends_the_run_after_those_before_it(headers: Any) -> None:
    writer, other = open_batch(), open_batch()
    rows = ArrowRows(pa.array([b"0", b"1", b"2"]), None, None, headers)
    with pytest.raises(SerializationError, match="row 1"):
        writer.append_arrow(rows, 0, NOW, FAR)
    other.append(None, b"0", [("a", b"")], NOW)
    assert writer.seal() == other.seal()
    assert writer.append_arrow(rows, 2, NOW, FAR) == 3


def test_old_formats_refuse_headers() -> None:
    rows = ArrowRows(pa.array([b"0"]), None, None, BAD.slice(0, 1))
    for magic in (0, 1):
        with pytest.raises(UnsupportedVersion, match="KIP-82"):
            open_batch(magic=magic).append_arrow(rows, 0, NOW, FAR)


def fragile() -> tuple[Any, bytearray]:
    """A column, and its offsets, which pyarrow lets one change."""
    offsets = bytearray(pa.array([b"ab", b"cd"]).buffers()[1].to_pybytes())
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"abcd")]
    return pa.Array.from_buffers(pa.binary(), 2, buffers), offsets


def torn() -> Any:
    """A column whose offsets reach beyond its bytes."""
    column, offsets = fragile()
    offsets[4:12] = b"\xff\xff\xff\x7f" * 2
    return column


@pytest.mark.parametrize(
    "wrong",
    [
        (pa.array([1, 2]),),
        (pa.array([b"a", b"b"]), pa.array([1.5, 2.5])),
        (pa.array([b"a", b"b"]), pa.array([b"a"])),
        (pa.array([b"a", b"b"]), None, pa.array([b"a", b"b"])),
        (pa.array([b"a", b"b"]), None, None, pa.array(["a", "b"])),
        (pa.chunked_array([[b"a"], [b"b"]]),),
        ([b"a", b"b"],),
        (torn(),),
    ],
    ids=lambda columns: str([getattr(c, "type", c) for c in columns]),
)
def test_other_columns_are_refused(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(SerializationError):
        ArrowRows(*wrong)


@pytest.mark.parametrize("lie", [5, 4096, (1 << 31) - 1, -1, -4096, -(1 << 31)])
def test_offsets_that_change_later_show_no_foreign_memory(lie: int) -> None:
    values, offsets = fragile()
    rows = ArrowRows(values, values)
    offsets[4:8] = lie.to_bytes(4, "little", signed=True)
    writer = open_batch()
    with suppress(SerializationError):
        writer.append_arrow(rows, 0, NOW, FAR)
    for record in decode(writer.seal()):
        assert (record.value or b"") in b"abcd"


def test_a_run_cannot_start_before_the_first_row() -> None:
    for magic in (0, 1, 2):
        with pytest.raises(IndexError):
            open_batch(magic=magic).append_arrow(ArrowRows(pa.array([b"v"])), -1, NOW, FAR)


@given(st.lists(DATA, max_size=20), st.integers(0, 3), st.integers(1, 100))
def test_keys_find_their_partitions(keys: list[bytes | None], skip: int, count: int) -> None:
    column = pa.array(keys, pa.binary()).slice(skip)
    rows = ArrowRows(pa.nulls(len(column), pa.binary()), column)
    found = interface.active.murmur2_arrow(rows, count)
    assert found.type == pa.int32()
    found.validate(full=True)
    known = [key for key in keys[skip:] if key is not None]
    wanted = iter(interface.active.murmur2_partitions(known, count))
    assert found.to_pylist() == [None if key is None else next(wanted) for key in keys[skip:]]


def test_without_keys_there_are_no_partitions() -> None:
    rows = ArrowRows(pa.array([b"v"] * 9))
    assert interface.active.murmur2_arrow(rows, 3).to_pylist() == [None] * 9
    with pytest.raises(ValueError, match="partitions"):
        interface.active.murmur2_arrow(rows, 0)
