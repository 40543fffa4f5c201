"""Runs of records that are alike: the pure twin reads them as it would one by one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from kclient.errors import CorruptRecord
from kclient.records import alike, decode, encode, interface, pure
from kclient.records.batch import CRC_END
from kclient.types import ProducerRecord, Record

NOW = 1_700_000_000_000
RUN = st.tuples(
    st.integers(1, 40),  # records
    st.sampled_from([0, 1, 63, 64, 100, 300]),  # bytes of a value
    st.sampled_from([None, 0, 8, 70]),  # bytes of a key
    st.sampled_from([0, 1, 70, 9000]),  # ms since the run before
    st.booleans(),  # headers
)


def batch_of(runs: list[tuple[int, int, int | None, int, bool]]) -> bytes:
    records, now = [], NOW
    for count, value, key, later, has_headers in runs:
        now += later
        headers = [("h", b"1")] if has_headers else []
        for number in range(count):
            made = None if key is None else (b"%d" % number).ljust(key)[:key]
            records.append(ProducerRecord("t", b"v" * value, made, headers, None, now))
    return encode(records)


@pytest.fixture(autouse=True)
def pure_twin() -> Iterator[None]:
    before, interface.active = interface.active, interface.select("python")
    yield
    interface.active = before


def one_by_one(raw: bytes) -> list[Record]:
    """What reading gives that never looks for runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pure, "LEAST_ALIKE", 1 << 60)
        return decode(raw)


@given(st.lists(RUN, min_size=1, max_size=8))
@settings(deadline=None)
def test_same_as_one_by_one(runs: list[tuple[int, int, int | None, int, bool]]) -> None:
    raw = batch_of(runs)
    assert decode(raw) == one_by_one(raw)


@given(st.lists(RUN, min_size=1, max_size=4), st.data())
@settings(deadline=None)
def test_damage_is_found_just_as_well(
    runs: list[tuple[int, int, int | None, int, bool]], data: st.DataObject
) -> None:
    raw = bytearray(batch_of(runs))
    raw[data.draw(st.integers(61, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    raw[CRC_END - 4 : CRC_END] = crc32c(raw[CRC_END:]).to_bytes(4, "big")
    try:
        wanted: list[Record] | None = one_by_one(bytes(raw))
    except CorruptRecord:
        wanted = None
    try:
        assert decode(bytes(raw)) == wanted
    except CorruptRecord:
        assert wanted is None


def test_long_runs_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20,000 records the first 8,192 are quick; offsets take three bytes from there on."""
    calls = 0
    real = alike.read_alike

    def counted(*args: object) -> int:
        nonlocal calls
        calls += 1
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(pure, "read_alike", counted)
    raw = batch_of([(20_000, 20, 8, 0, False)])
    assert [record.offset for record in decode(raw)] == list(range(20_000))
    assert 0 < calls < 40
