"""Both implementations of records write the same bytes, read the same, and refuse the same."""

from __future__ import annotations

import gc
import pickle
from struct import pack_into
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kclient.compression import Codec, Compression, parse_compression
from kclient.errors import KafkaError
from kclient.records import RecordBatch, batches, decode
from kclient.records.arrow_rows import ArrowRows
from kclient.records.interface import BatchWriter, Implementation
from kclient.types import Record

if TYPE_CHECKING:
    from kclient.records import _compiled, pure

    FITS: list[Implementation] = [pure, _compiled]

NOW = 1_700_000_000_000
INT64 = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(NOW, NOW + (1 << 14))
TIMES = INT64 | st.just(1 << 63)
DATA = st.none() | st.binary(max_size=150)
ODD = st.sampled_from([bytearray(b"xy"), memoryview(b"abcd")[::2], "text", 5, (b"a",), b"x" * 9000])
PARTS = DATA | ODD
HEADERS = st.sampled_from([[b"no pair"], 5, {"a": b""}, [("\ud800", b"")], [["a", bytearray()]]])
HEADERS |= st.lists(st.tuples(st.text(max_size=8), DATA), max_size=3)
LIMITS = st.integers(-1, 3000)
ROWS = st.lists(st.tuples(DATA, DATA), max_size=9)

STEPS = st.one_of(
    st.tuples(st.just("append"), PARTS, PARTS, HEADERS, TIMES),
    st.tuples(
        st.just("append_values"), st.lists(PARTS, max_size=9), st.integers(0, 3), TIMES, LIMITS
    ),
    st.tuples(
        st.just("append_pairs"),
        st.lists(st.tuples(PARTS, PARTS) | PARTS, max_size=9),
        st.integers(0, 3),
        TIMES,
        LIMITS,
    ),
    st.tuples(
        st.just("append_arrow"),
        ROWS.map(lambda rows: ArrowRows(*(pa.array(c, pa.binary()) for c in columns(rows)))),
        st.integers(0, 3),
        INT64,
        LIMITS,
    ),
)


def columns(rows: list[tuple[Any, Any]]) -> Any:
    return zip(*rows, strict=True) if rows else ((), ())


def outcome(work: Any, *args: Any, **options: Any) -> Any:
    """A result, or the class and text of what was raised."""
    try:
        return work(*args, **options)
    except (KafkaError, TypeError, ValueError) as error:
        return type(error), str(error) if isinstance(error, KafkaError) else ""


@settings(max_examples=500)
@given(
    st.lists(STEPS, max_size=6),
    st.sampled_from([Compression(codec) for codec in Codec]),
    st.integers(0, 100) | INT64,
    st.sampled_from([-1, 0, 5, 1 << 15, 1 << 63]),
)
def test_they_write_the_same(
    twins: list[Implementation],
    steps: list[Any],
    compression: Compression,
    base_offset: int,
    producer: int,
) -> None:
    pure, compiled = (twin.open_batch(compression) for twin in twins)
    for name, *args in steps:
        wanted = outcome(getattr(pure, name), *args)
        assert outcome(getattr(compiled, name), *args) == wanted
        assert (compiled.count, compiled.size) == (pure.count, pure.size)
    state = {"producer_id": producer, "producer_epoch": producer, "base_sequence": producer}
    for options in ({}, {"base_offset": base_offset}, state, {"transactional": True}):
        assert outcome(compiled.seal, **options) == outcome(pure.seal, **options)


def written(steps: list[Any], writer: BatchWriter) -> bytearray:
    for name, *args in steps:
        outcome(getattr(writer, name), *args)
    return bytearray(writer.seal())


@settings(max_examples=500)
@given(
    st.lists(STEPS, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), max_size=4),
    st.lists(st.sampled_from([0, 1, 5, 9, 10, 0x7F, 0x80, 0xFE, 0xFF]), max_size=2),
    st.sampled_from([0, 8]),
)
def test_they_read_the_same(
    twins: list[Implementation],
    steps: list[Any],
    damage: list[tuple[int, int]],
    tail: list[int],
    attributes: int,
) -> None:
    data = written(steps, twins[0].open_batch(parse_compression(None)))
    if not data:
        return
    for pos, byte in damage:
        data[57 + pos % (len(data) - 57)] = byte  # the record count, or the records
    data += bytes(tail)
    data[22] = attributes
    pack_into(">i", data, 8, len(data) - 12)
    for batch in outcome(list, batches(data, topic="t", partition=3, check_crc=False)):
        if not isinstance(batch, RecordBatch):
            return  # the scanner, which has no twin, did not like it
        wanted, found = (outcome(twin.read_records, batch.section, batch) for twin in twins)
        if isinstance(wanted, list):
            assert found == wanted
            assert [type(record) for record in found] == [Record] * len(found)
        else:
            assert found[0] is wanted[0]
        tables = [outcome(twin.read_arrow, [(batch, batch.section)] * 2) for twin in twins]
        if isinstance(wanted, list):
            tables[1].validate(full=True)
            assert tables[1].equals(tables[0])
            assert tables[1].schema.equals(tables[0].schema)
        else:
            assert tables[1] == found


def test_records_of_both_are_alike(twins: list[Implementation]) -> None:
    writer = twins[1].open_batch(parse_compression(None))
    writer.append(b"k", b"v", [("h", b"")], NOW)
    (batch,) = batches(writer.seal(), topic="t", partition=1)
    (one,), (other,) = (twin.read_records(batch.section, batch) for twin in twins)
    assert one == other
    assert repr(one) == repr(other)
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(other)) == one
    assert other._replace(value=b"w").value == b"w"
    assert not gc.is_tracked(other)  # what it holds cannot form a cycle


def test_columns_beyond_their_limit_become_more_tables(
    twins: list[Implementation], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: Any = twins[1]
    given = []
    for size in (10, 400, 10, 10, 90, 3, 3):
        writer = compiled.open_batch(parse_compression(None))
        writer.append(b"k" * size, None, [("h", b"1")], NOW)
        (batch,) = batches(writer.seal(), topic="topic")
        given.append((batch, batch.section))
    whole = compiled.read_arrow(given)
    assert whole["key"].num_chunks == 1
    monkeypatch.setattr(compiled, "COLUMN_LIMIT", 120)
    parts = compiled.read_arrow(given)
    assert parts["key"].num_chunks > 3
    assert parts.equals(whole)


def test_a_batch_in_the_hands_of_a_codec_cannot_grow(
    twins: list[Implementation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A codec that lets go of the GIL reads the writer's own memory."""
    for twin in twins:
        writer = twin.open_batch(parse_compression("gzip"))
        writer.append(None, b"v")

        def compress(section: Any, *args: Any, writer: Any = writer, **options: Any) -> bytes:
            with pytest.raises(BufferError):
                writer.append(None, b"x" * 10_000)
            return bytes(section)

        monkeypatch.setattr("kclient.records.seal.compress", compress)
        writer.seal()
        monkeypatch.undo()
        assert len(decode(writer.seal())) == 1
        writer.append(None, b"w")
        assert len(decode(writer.seal())) == 2


class Nested(bytes):
    """Bytes that append to a batch while they are themselves appended to it."""

    writer: BatchWriter

    def __bytes__(self) -> bytes:
        self.writer.append(None, b"inner" * 1000)
        return b"outer"


def test_appending_while_appending_is_safe(twins: list[Implementation]) -> None:
    writer = twins[1].open_batch(parse_compression(None))
    nested = Nested()
    nested.writer = writer
    writer.append(nested, nested, [("h", nested)])
    writer.append_values([nested, b"last"], 0, NOW, 1 << 20)
    found = [record.value for record in decode(writer.seal())]
    assert found == [b"inner" * 1000] * 3 + [b"outer", b"inner" * 1000, b"outer", b"last"]


def test_a_list_may_shrink_meanwhile(twins: list[Implementation]) -> None:
    class Shrinking(bytes):
        def __bytes__(self) -> bytes:
            values.clear()
            return b"shrunk"

    values: list[bytes | None] = [b"first", Shrinking(), b"never seen"]
    writer = twins[1].open_batch(parse_compression(None))
    assert writer.append_values(values, 0, NOW, 1 << 20) == 2
    assert [record.value for record in decode(writer.seal())] == [b"first", b"shrunk"]
