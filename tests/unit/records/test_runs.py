"""Whole lists appended at once: the same bytes as one by one, up to a limit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.errors import ProtocolError, SerializationError
from kclient.records import BatchWriter, decode, open_batch

NOW = 1_700_000_000_000
FAR = 1 << 30
DATA = st.none() | st.binary(max_size=300) | st.just(b"x" * 8200)
PAIRS = st.lists(st.tuples(DATA, DATA), max_size=30)
every_magic = pytest.mark.parametrize("magic", [0, 1, 2])


def one_by_one(pairs: list[Any], timestamp: int, limit: int, magic: int = 2) -> BatchWriter:
    """Append while the next one fits, by the plain way."""
    writer, ahead = open_batch(magic=magic), open_batch(magic=magic)
    for key, value in pairs:
        if ahead.append(key, value, (), timestamp) > limit and writer.count:
            break
        writer.append(key, value, (), timestamp)
    return writer


@every_magic
@given(PAIRS, st.integers(0, 3), st.integers(-1, 2000) | st.just(FAR))
def test_a_run_is_its_records_one_by_one(
    magic: int, pairs: list[Any], start: int, limit: int
) -> None:
    wanted = one_by_one(pairs[start:], NOW, limit, magic)
    writer = open_batch(magic=magic)
    end = writer.append_pairs(pairs, start, NOW, limit)
    assert end == start + writer.count
    assert (writer.count, writer.size) == (wanted.count, wanted.size)
    assert writer.seal() == wanted.seal()
    values = [value for _, value in pairs]
    wanted = one_by_one([(None, value) for value in values[start:]], NOW, limit, magic)
    writer = open_batch(magic=magic)
    writer.append_values(values, start, NOW, limit)
    assert writer.seal() == wanted.seal()


@every_magic
def test_a_list_fills_one_batch_after_the_other(magic: int) -> None:
    values: list[bytes | None] = [b"%d" % n for n in range(1000)]
    found: list[bytes | None] = []
    batches = pos = 0
    while pos < len(values):
        writer = open_batch(magic=magic)
        pos = writer.append_values(values, pos, NOW, 1000)
        assert writer.size <= 1000
        found += [record.value for record in decode(writer.seal())]
        batches += 1
    assert found == values
    assert batches > 5


@every_magic
def test_the_first_record_fits_any_limit(magic: int) -> None:
    for limit in (-1, 0, 1):
        writer = open_batch(magic=magic)
        assert writer.append_pairs([(b"k", b"v" * 500)] * 2, 0, NOW, limit) == 1
        assert writer.append_pairs([(b"k", b"v" * 500)] * 2, 1, NOW, limit) == 1
        assert writer.count == 1


def test_runs_and_single_records_share_a_batch() -> None:
    writer, other = open_batch(), open_batch()
    writer.append(b"k", b"v", [("h", b"")], NOW)
    writer.append_values([b"a", None], 0, NOW - 9, FAR)
    writer.append_pairs([(None, b"b"), (b"k", b"")], 0, NOW + 9000, FAR)
    other.append(b"k", b"v", [("h", b"")], NOW)
    for key, value, timestamp in (
        (None, b"a", NOW - 9),
        (None, None, NOW - 9),
        (None, b"b", NOW + 9000),
        (b"k", b"", NOW + 9000),
    ):
        other.append(key, value, (), timestamp)
    assert writer.seal() == other.seal()


@every_magic
@pytest.mark.parametrize("wrong", ["text", 5, [1], b"abc", b"ab", (b"k", "text"), (b"k",), None])
def test_a_wrong_pair_ends_the_run_after_those_before_it(magic: int, wrong: Any) -> None:
    pairs = [(b"k", b"0"), (b"k", b"1"), wrong, (b"k", b"2")]
    writer = open_batch(magic=magic)
    with pytest.raises(SerializationError):
        writer.append_pairs(pairs, 0, NOW, FAR)
    assert writer.seal() == one_by_one(pairs[:2], NOW, FAR, magic).seal()
    assert writer.append_pairs(pairs, 3, NOW, FAR) == 4
    assert writer.seal() == one_by_one([*pairs[:2], pairs[3]], NOW, FAR, magic).seal()


@every_magic
@pytest.mark.parametrize("wrong", ["text", 5, [1], (b"k", b"v")])
def test_a_wrong_value_ends_the_run_after_those_before_it(magic: int, wrong: Any) -> None:
    writer = open_batch(magic=magic)
    with pytest.raises(SerializationError, match=type(wrong).__name__):
        writer.append_values([b"0", wrong, b"1"], 0, NOW, FAR)
    assert writer.seal() == one_by_one([(None, b"0")], NOW, FAR, magic).seal()


def test_any_buffer_will_do_in_a_run() -> None:
    writer = open_batch()
    pairs: list[Any] = [[bytearray(b"k"), memoryview(b"xvx")[1:2]], (b"", memoryview(b"abcd")[::2])]
    assert writer.append_pairs(pairs, 0, NOW, FAR) == 2
    found = [(record.key, record.value) for record in decode(writer.seal())]
    assert found == [(b"k", b"v"), (b"", b"ac")]


@pytest.mark.parametrize("timestamp", [1 << 63, -(1 << 63) - 1])
@pytest.mark.parametrize("before", [0, 1])
def test_timestamps_that_do_not_fit_leave_the_batch_as_it_was(timestamp: int, before: int) -> None:
    writer = open_batch()
    for _ in range(before):
        writer.append(None, b"v", (), NOW)
    sealed = writer.seal()
    with pytest.raises(ProtocolError, match="timestamp"):
        writer.append(None, b"v", (), timestamp)
    with pytest.raises(ProtocolError, match="timestamp"):
        writer.append_values([b"v"], 0, timestamp, FAR)
    assert (writer.count, writer.seal()) == (before, sealed)


def test_timestamps_stop_where_64_bits_do() -> None:
    writer = open_batch()
    last = (1 << 63) - 1
    writer.append(None, b"v", (), last - 1)
    writer.append(None, b"v", (), last)
    for timestamp in (last + 1, last + 5000):
        with pytest.raises(ProtocolError, match="timestamp"):
            writer.append(None, b"v", (), timestamp)
        with pytest.raises(ProtocolError, match="timestamp"):
            writer.append_values([b"v"], 0, timestamp, FAR)
    assert [record.timestamp for record in decode(writer.seal())] == [last - 1, last]


def test_a_run_cannot_start_before_the_list() -> None:
    for magic in (0, 1, 2):
        with pytest.raises(IndexError):
            open_batch(magic=magic).append_values([b"v"], -1, NOW, FAR)
        with pytest.raises(IndexError):
            open_batch(magic=magic).append_pairs([(b"k", b"v")], -1, NOW, FAR)
