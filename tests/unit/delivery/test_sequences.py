from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kclient.delivery.batch import following
from kclient.delivery.sequences import LAST_EPOCH, NOBODY, ProducerId, Row, Sequences

from .making import batch

ME = ProducerId(7, 0)
LARGEST = (1 << 31) - 1


@given(st.integers(0, LARGEST), st.integers(0, LARGEST))
def test_numbers_wrap_to_0_after_the_largest(sequence: int, count: int) -> None:
    expected = sequence + count
    assert following(sequence, count) == (expected if expected <= LARGEST else expected - 2**31)


@given(st.lists(st.integers(1, 5), max_size=10), st.integers(0, LARGEST))
def test_rows_have_no_gaps(counts: list[int], start: int) -> None:
    row = Row(owner=ME, next=start, known_as=ME.number)
    expected = start
    for count in counts:
        made = batch(*[b""] * count)
        row.number(made, ME)
        assert (made.producer_id, made.producer_epoch) == ME
        assert made.sequence == expected
        assert not made.is_open
        expected = (expected + count) % 2**31
    assert row.next == expected


def test_a_new_epoch_starts_at_0() -> None:
    row = Row()
    first, second = batch(b"a", b"b"), batch(b"c")
    row.number(first, ME)
    row.number(second, ProducerId(7, 1))
    assert (first.sequence, second.sequence, second.producer_epoch) == (0, 0, 1)


def test_a_new_epoch_waits_for_what_has_numbers_of_the_old() -> None:
    row, sent, waiting = Row(), batch(b"a"), batch(b"b")
    row.number(sent, ME)
    row.note_success(sent)
    assert row.may_number(ME, [sent, waiting])
    raised = ProducerId(7, 1)
    assert not row.may_number(raised, [sent, waiting])
    assert row.may_number(raised, [waiting])


def test_the_first_batch_of_a_producer_goes_alone() -> None:
    row, first, second = Row(), batch(b"a"), batch(b"b")
    assert row.may_number(ME, [first, second])
    row.number(first, ME)
    assert not row.may_number(ME, [first, second])
    row.note_success(first)
    assert row.may_number(ME, [first, second])
    other = ProducerId(8, 0)
    row.number(second, other)
    assert not row.may_number(other, [second])


def test_an_epoch_is_raised_once_for_all_who_saw_the_same() -> None:
    sequences = Sequences(is_on=True)
    sequences.take(ME)
    assert not sequences.needs_id
    sequences.raise_epoch(ME)
    sequences.raise_epoch(ME)
    assert sequences.current == ProducerId(7, 1)


def test_after_the_last_epoch_a_new_id_is_needed() -> None:
    sequences = Sequences(is_on=True)
    sequences.take(ProducerId(7, LAST_EPOCH))
    sequences.raise_epoch(sequences.current)
    assert sequences.current == NOBODY
    assert sequences.needs_id


def test_an_id_is_needed_at_first() -> None:
    assert Sequences(is_on=True).needs_id


def test_off_means_no_id_is_needed() -> None:
    assert not Sequences(is_on=False).needs_id
