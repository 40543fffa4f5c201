from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kclient import TopicPartition
from kclient.spark.offsets import OffsetRange, limit_rows, load, plan, store

A, B = TopicPartition("a", 0), TopicPartition("b", 10)
PARTITIONS = st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 12))
RANGES = st.dictionaries(
    PARTITIONS, st.tuples(st.integers(0, 1000), st.integers(0, 500)), max_size=6
).map(lambda found: [OffsetRange(tp, low, low + size) for tp, (low, size) in found.items()])


def test_stored_as_the_connector_does() -> None:
    assert store({B: 5, A: 0}) == {"a": {"0": 0}, "b": {"10": 5}}
    assert load(store({B: 5, A: 0})) == {A: 0, B: 5}


@given(RANGES, st.none() | st.integers(1, 40), st.none() | st.integers(1, 100))
def test_pieces_are_the_whole(
    ranges: list[OffsetRange], min_partitions: int | None, max_records: int | None
) -> None:
    pieces = plan(ranges, min_partitions=min_partitions, max_records=max_records)
    assert all(piece.size > 0 for piece in pieces)
    covered = [(piece.tp, offset) for piece in pieces for offset in range(*piece[1:])]
    assert sorted(covered) == sorted(
        (each.tp, offset) for each in ranges for offset in range(*each[1:])
    )
    if max_records is not None:
        assert all(piece.size <= max_records for piece in pieces)


def test_large_partitions_are_cut_first() -> None:
    pieces = plan([OffsetRange(A, 0, 900), OffsetRange(B, 0, 100)], min_partitions=10)
    assert [piece.tp for piece in pieces] == [A] * 9 + [B]
    assert {piece.size for piece in pieces} == {100}


@given(RANGES, st.integers(1, 400))
def test_a_limit_moves_every_partition_on(ranges: list[OffsetRange], rows: int) -> None:
    starts = {each.tp: each.start for each in ranges}
    ends = {each.tp: each.end for each in ranges}
    limited = limit_rows(starts, ends, rows)
    for tp, end in limited.items():
        assert starts[tp] <= end <= ends[tp]
        assert end > starts[tp] or ends[tp] == starts[tp]
    taken = sum(end - starts[tp] for tp, end in limited.items())
    assert taken <= max(rows, 0) + len(ranges)


def test_shares_are_by_what_is_waiting() -> None:
    assert limit_rows({A: 0, B: 100}, {A: 900, B: 200}, 100) == {A: 90, B: 110}
    assert limit_rows({A: 0}, {A: 5}, 100) == {A: 5}
