"""Data of one partition in one answer: filtered, cut, damaged, compacted."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from crc32c import crc32c

from kclient.errors import CorruptRecord
from kclient.fetch.fetched import Fetched
from kclient.fetch.positions import PartitionState
from kclient.protocol.messages.fetch import AbortedTransaction, PartitionData
from kclient.records import encode
from kclient.records.batch import CONTROL, CRC_END, HEADER, TRANSACTIONAL
from kclient.types import ProducerRecord, TopicPartition

TP = TopicPartition("t", 0)
ABORT, COMMIT = 0, 1


def batch(
    offset: int,
    count: int = 1,
    *,
    producer: int = -1,
    gap: int = 0,
    epoch: int = -1,
    key: bytes | None = None,
    attributes: int = 0,
) -> bytes:
    """A batch of records named by their offsets; ``gap`` offsets behind them are gone."""
    made = encode(
        [ProducerRecord("t", b"%d" % (offset + number), key) for number in range(count)],
        base_offset=offset,
        producer_id=producer,
    )
    fields = list(HEADER.unpack_from(made))
    fields[2] = epoch
    fields[5] |= attributes
    fields[6] += gap
    header = HEADER.pack(*fields)
    body = header[CRC_END:] + made[HEADER.size :]
    return header[: CRC_END - 4] + crc32c(body).to_bytes(4, "big") + body


def data(offset: int, count: int = 1, producer: int = 1) -> bytes:
    return batch(offset, count, producer=producer, attributes=TRANSACTIONAL)


def marker(offset: int, kind: int, producer: int = 1) -> bytes:
    key = struct.pack(">hh", 0, kind)
    return batch(offset, key=key, producer=producer, attributes=TRANSACTIONAL | CONTROL)


def fetched(
    raw: bytes, start: int = 0, aborted: Sequence[tuple[int, int]] = ()
) -> tuple[Fetched, PartitionState]:
    """``aborted`` are producer ids with the first offsets of their transactions."""
    state = PartitionState(TP, 1000)
    state.move(start)
    listed = [AbortedTransaction(producer_id=who, first_offset=at) for who, at in aborted]
    answer = PartitionData(records=raw, aborted_transactions=listed)
    return Fetched(state, answer, check_crc=True), state


def offsets(made: Fetched, limit: int = 1000) -> list[int]:
    return [record.offset for record in made.take(limit)]


def test_takes_no_more_than_asked_for() -> None:
    made, state = fetched(batch(0, 5) + batch(5, 5))
    assert offsets(made, 3) == [0, 1, 2]
    assert state.position == 3
    assert offsets(made, 4) == [3, 4, 5, 6]
    assert offsets(made) == [7, 8, 9]
    assert made.is_empty
    assert (state.position, made.next_offset) == (10, 10)


def test_begins_in_the_middle_of_a_batch() -> None:
    made, _ = fetched(batch(0, 5) + batch(5, 5), start=7)
    assert offsets(made) == [7, 8, 9]


def test_batch_cut_short_is_left_for_the_next_fetch() -> None:
    whole = batch(5, 5)
    made, state = fetched(batch(0, 5) + whole[:-3])
    assert offsets(made) == [0, 1, 2, 3, 4]
    assert (state.position, made.next_offset, made.error) == (5, 5, None)


def test_only_a_piece_of_a_batch() -> None:
    made, _ = fetched(batch(0, 5)[:-3])
    assert made.is_empty
    assert made.next_offset == 0


def test_gaps_of_compaction_are_gone_over() -> None:
    made, state = fetched(batch(3, 2, gap=5) + batch(20, 1, gap=9))
    assert offsets(made) == [3, 4, 20]
    assert state.position == 30, "behind the last offset that was there once"


def test_epoch_of_what_was_read_is_kept() -> None:
    made, state = fetched(batch(0, 2, epoch=4) + batch(2, 2, epoch=6))
    made.take(2)
    assert state.epoch == 4
    made.take(2)
    assert (state.epoch, made.last_epoch) == (6, 6)


def test_markers_are_never_handed_out_but_advance() -> None:
    made, state = fetched(data(0) + marker(1, COMMIT) + marker(2, ABORT, producer=9))
    assert offsets(made) == [0]
    assert offsets(made) == []
    assert state.position == 3


def test_aborted_transactions_are_left_out() -> None:
    raw = b"".join(
        [
            data(0, 2),  # aborted
            batch(2, producer=-1),  # plain
            data(3, producer=2),  # committed, of another producer
            marker(4, ABORT),
            data(5),  # committed, of the first one
            marker(6, COMMIT),
            marker(7, COMMIT, producer=2),
            data(8),  # aborted again
            marker(9, ABORT),
        ]
    )
    # The list is not sorted, and names a producer twice.
    made, state = fetched(raw, aborted=[(1, 8), (1, 0)])
    assert offsets(made) == [2, 3, 5]
    assert state.position == 10


def test_same_in_one_table() -> None:
    raw = data(0, 2) + batch(2) + marker(3, ABORT) + data(4) + marker(5, COMMIT)
    made, state = fetched(raw, aborted=[(1, 0)])
    assert made.take_table(1000)["offset"].to_pylist() == [2, 4]
    assert (state.position, made.is_empty) == (6, True)


def test_table_begins_where_records_ended() -> None:
    made, state = fetched(batch(0, 5) + batch(5, 5) + batch(10, 5))
    made.take(2)
    assert made.take_table(1)["offset"].to_pylist() == [2, 3, 4]
    assert made.take_table(1)["offset"].to_pylist() == [5, 6, 7, 8, 9]
    assert state.position == 10
    assert offsets(made) == [10, 11, 12, 13, 14]


def test_table_of_a_later_start() -> None:
    made, _ = fetched(batch(0, 5), start=3)
    assert made.take_table(100)["offset"].to_pylist() == [3, 4]


def damaged(raw: bytes) -> bytes:
    """Damage that only reading finds: the checksum is right."""
    fields = list(HEADER.unpack_from(raw))
    body = HEADER.pack(*fields)[CRC_END:] + b"\xff" * (len(raw) - HEADER.size)
    return raw[: CRC_END - 4] + crc32c(body).to_bytes(4, "big") + body


def test_wrong_checksum_is_told_behind_what_is_sound() -> None:
    bad = bytearray(batch(5, 5))
    bad[-1] ^= 1
    made, state = fetched(batch(0, 5) + bytes(bad) + batch(10, 5))
    assert offsets(made) == [0, 1, 2, 3, 4]
    assert isinstance(made.error, CorruptRecord)
    assert vars(made.error)["offset"] == 5
    assert state.position == 5


@pytest.mark.parametrize("as_table", [False, True])
def test_damage_inside_comes_after_what_is_sound(as_table: bool) -> None:
    made, state = fetched(batch(0, 5) + damaged(batch(5, 5)))
    if as_table:
        assert made.take_table(100)["offset"].to_pylist() == [0, 1, 2, 3, 4]
    else:
        assert offsets(made) == [0, 1, 2, 3, 4]
    assert state.position == 5
    for _ in range(2):  # as often as it is asked for
        with pytest.raises(CorruptRecord, match=r"t\[0\], batch at offset 5"):
            made.take(100)
    assert state.position == 5


def test_put_back_is_handed_out_again() -> None:
    made, state = fetched(batch(0, 5) + batch(5, 5))
    taken = made.take(7)
    made.put_back(taken[4:])
    assert state.position == 4
    assert offsets(made) == [4, 5, 6, 7, 8, 9]


def test_change_of_course_makes_it_stale() -> None:
    sought, state = fetched(batch(0, 5))
    state.move(3)
    paused, state = fetched(batch(0, 5))
    state.is_paused = True
    untouched, _ = fetched(batch(0, 5))
    assert [made.is_current for made in (sought, paused, untouched)] == [False, False, True]
