from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kclient.delivery.accumulator import FAR, Accumulator, headers_size
from kclient.delivery.batch import Batch
from kclient.errors import ClientClosedError, SerializationError
from kclient.records import decode, open_batch
from kclient.types import TopicPartition

from .making import TP, accumulator, append


def test_records_share_a_batch_until_it_is_full() -> None:
    records = accumulator(batch_size=300, linger_ms=1000)
    batches = [append(records, b"x" * 50) for _ in range(10)]
    assert len(set(batches)) > 1
    assert all(each.size <= 300 for each in batches)
    assert sum(each.count for each in set(batches)) == 10
    closed = [each for each in dict.fromkeys(batches) if not each.is_open]
    assert closed == list(dict.fromkeys(batches))[:-1]
    assert list(records.ready) == [records.partitions[TP]]


def test_a_record_larger_than_a_batch_has_one_of_its_own() -> None:
    records = accumulator(batch_size=100)
    append(records, b"small")
    large = append(records, b"x" * 1000)
    after = append(records, b"small")
    assert (large.count, large.is_open, after is large) == (1, False, False)


def test_batches_leave_after_lingering_or_when_urgent() -> None:
    records = accumulator(linger_ms=1000)
    batch = append(records)
    due = batch.created_at + 1
    assert records.note_time(due - 0.5) == due
    assert not records.ready
    assert records.note_time(due) == FAR
    assert list(records.ready) == [records.partitions[TP]]
    records = accumulator(linger_ms=1000)
    append(records)
    append(records, is_urgent=True)
    assert list(records.ready) == [records.partitions[TP]]


def test_a_full_buffer_lets_batches_leave_at_once() -> None:
    records = accumulator(linger_ms=1000, buffer_memory=200)
    batch = append(records, b"x" * 200)
    assert records.is_full
    records.note_time(batch.created_at)
    assert records.ready


def test_memory_is_given_back() -> None:
    records = accumulator()
    batch = append(records, b"x" * 100)
    assert records.used == batch.charged > 100
    with records.lock:
        records.take(records.partitions[TP])
        batch.convert(1)  # takes other room now, but what it had is given back
        records.remove(batch)
        records.remove(batch)
    assert (records.used, records.unsettled) == (0, 0)


def test_what_goes_again_keeps_its_place() -> None:
    records = accumulator(batch_size=60)
    batches = [append(records, b"%d" % number + b"x" * 60) for number in range(5)]
    partition = records.partitions[TP]
    with records.lock:
        taken = [records.take(partition) for _ in range(3)]
        for each in (taken[1], taken[0], taken[2]):
            records.requeue(each, 0.0)
    assert list(partition.queue) == batches


def test_parts_take_the_place_of_the_whole() -> None:
    records = accumulator(batch_size=150)
    batches = list(dict.fromkeys(append(records, b"%02d" % n + b"x" * 20) for n in range(12)))
    partition = records.partitions[TP]
    with records.lock:
        first, second = records.take(partition), records.take(partition)
        records.replace(first, first.split())
        records.requeue(second, 0.0)
        parts = [part for _, part in first.parts]
        assert list(partition.queue) == [*parts, *batches[1:]]
        again = records.take(partition)
        records.replace(again, again.split())
    assert [each.order for each in list(partition.queue)[:4]] == [
        (0, 0, 0),
        (0, 0, 1),
        (0, 1),
        (1,),
    ]
    assert records.unsettled == len(batches) + 2
    values = [record.value for each in partition.queue for record in decode(each.sealed())]
    assert values == [b"%02d" % n + b"x" * 20 for n in range(12)]


def test_batches_expire_by_age_once() -> None:
    records = accumulator(delivery_timeout_ms=1000)
    batch = append(records)
    assert records.next_expiry == batch.created_at + 1
    assert records.expired(batch.created_at + 0.9) == []
    assert records.expired(batch.created_at + 1) == [batch]
    assert records.expired(batch.created_at + 1) == []
    assert records.next_expiry == FAR


def test_the_whole_of_a_split_batch_does_not_expire_beside_its_parts() -> None:
    records = accumulator(delivery_timeout_ms=1000)
    append(records, b"a")
    whole = append(records, b"b")
    with records.lock:
        records.take(records.partitions[TP])
        parts = whole.split()
        records.replace(whole, parts)
    assert set(records.expired(FAR)) == set(parts)


def test_a_wrong_record_leaves_no_empty_batch() -> None:
    records = accumulator()
    with records.lock, pytest.raises(SerializationError):
        records.append(TP, None, "text", (), 1, 50, is_urgent=True)  # type: ignore[arg-type]
    assert not records.partitions[TP].queue
    assert (records.used, records.unsettled, records.ready) == (0, 0, {})


def test_nothing_is_taken_when_closed() -> None:
    records = accumulator()
    records.is_closed = True
    with pytest.raises(ClientClosedError):
        append(records)


def test_flush_closes_and_returns_all() -> None:
    records = accumulator()
    other = TopicPartition("orders", 1)
    one, two = append(records), append(records, tp=other)
    with records.lock:
        records.take(records.partitions[TP])
        assert records.close_all() == [one, two]
    assert not two.is_open


@given(st.lists(st.tuples(st.text(), st.none() | st.binary())))
def test_headers_take_no_more_than_was_thought(headers: list[tuple[str, bytes | None]]) -> None:
    plain, full = open_batch(), open_batch()
    try:
        size = full.append(None, None, headers, 0) - plain.append(None, None, (), 0)
    except SerializationError:
        with pytest.raises(SerializationError):
            headers_size(headers)
    else:
        assert size <= headers_size(headers) + 5


class Queues(RuleBasedStateMachine):
    """Any order of what can happen to batches: sums stay true, order stays, nothing is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.records: Accumulator = accumulator(batch_size=120)
        self.appended = 0
        self.done: list[Batch] = []

    @property
    def partition(self) -> object:
        return self.records.partitions.get(TP)

    @rule(size=st.integers(0, 200), is_urgent=st.booleans())
    def append_one(self, size: int, is_urgent: bool) -> None:
        append(self.records, b"%06d" % self.appended + b"x" * size, is_urgent=is_urgent)
        self.appended += 1

    def flying(self) -> list[Batch]:
        found = self.records.partitions.get(TP)
        return [] if found is None else list(found.in_flight)

    @precondition(lambda self: self.records.ready)
    @rule()
    def take(self) -> None:
        with self.records.lock:
            self.records.take(next(iter(self.records.ready)))

    @precondition(lambda self: self.flying())
    @rule(data=st.data(), what=st.sampled_from(["back", "split", "end"]))
    def answer(self, data: st.DataObject, what: str) -> None:
        batch = data.draw(st.sampled_from(self.flying()))
        with self.records.lock:
            if what == "split" and batch.count > 1:
                self.records.replace(batch, batch.split())
            elif what == "end":
                batch.finish(0)
                self.records.remove(batch)
                self.done.append(batch)
            else:
                self.records.requeue(batch, 0.0)

    @rule()
    def repair(self) -> None:
        with self.records.lock:
            self.records.repair()

    @invariant()
    def sums_agree(self) -> None:
        found = self.records.partitions.get(TP)
        if found is None:
            return
        waiting = list(found.unsettled())
        assert self.records.unsettled == len(waiting)
        assert self.records.used == sum(each.charged for each in waiting)
        assert (found in self.records.ready) == found.may_leave
        orders = [each.order for each in found.queue]
        assert orders == sorted(orders)
        assert len(set(waiting)) == len(waiting)
        everything = sorted([*waiting, *self.done], key=lambda each: each.order)
        values = [record.value for each in everything for record in decode(each.sealed())]
        assert [int(value[:6]) for value in values if value] == list(range(self.appended))


TestQueues = Queues.TestCase
TestQueues.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
