"""Handing out: iteration, poll and what they leave each other; errors on the way; commits of it."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from kclient import Consumer, OffsetAndMetadata, Record, TopicPartition
from kclient.errors import ClientClosedError, ConfigError, CorruptRecord, SerializationError
from kclient.testing import FakeCluster

from .conftest import Make
from .steps import TP, batch, consumer_of, eventually, fill, poll_until, polls, read

OTHER = TopicPartition("orders", 1)


def take(consumer: Consumer, count: int) -> list[bytes]:
    """Iterate over so many records, then leave."""
    got: list[bytes] = []
    for record in consumer:
        got.append(record.value or b"")
        if len(got) == count:
            break
    return got


def test_iteration_that_is_left_loses_nothing(cluster: FakeCluster, consume: Make) -> None:
    values = fill(cluster, 40)
    consumer = consume(cluster)
    consumer.assign([TP])
    assert take(consumer, 7) == values[:7]
    assert take(consumer, 6) == values[7:13]
    assert consumer.position(TP) == 13
    assert [each.value for each in consumer.poll(1.0, max_records=4)] == values[13:17]
    assert take(consumer, 3) == values[17:20]
    assert read(consumer, 20) == values[20:]


def test_poll_inside_of_an_iteration(cluster: FakeCluster, consume: Make) -> None:
    values = fill(cluster, 30)
    consumer = consume(cluster)
    consumer.assign([TP])
    got: list[bytes | None] = []
    for record in consumer:
        got.append(record.value)
        if len(got) == 5:
            got += [each.value for each in consumer.poll(1.0, max_records=5)]
        if len(got) == 30:
            break
    assert got == values


def test_seek_inside_of_an_iteration(cluster: FakeCluster, consume: Make) -> None:
    fill(cluster, 20)
    consumer = consume(cluster)
    consumer.assign([TP])
    offsets = []
    for record in consumer:
        offsets.append(record.offset)
        if offsets == [0, 1, 2]:
            consumer.seek(TP, 10)
        if record.offset == 19:
            break
    assert offsets == [0, 1, 2, *range(10, 20)]


def test_pause_inside_of_an_iteration(cluster: FakeCluster, consume: Make) -> None:
    values = fill(cluster, 20)
    consumer = consume(cluster)
    consumer.assign([TP, OTHER])
    got: list[bytes] = []
    for record in consumer:
        got.append(record.value or b"")
        if len(got) == 3:
            consumer.pause([TP])
            fill(cluster, 5, OTHER)
        if record.partition == 1 and record.offset == 4:
            consumer.resume([TP])
        if len(got) == 25:
            break
    assert [each for each in got if each.startswith(b"0/")] == values


def test_wakeup_ends_a_busy_iteration_and_no_record_is_lost(
    cluster: FakeCluster, consume: Make
) -> None:
    values = fill(cluster, 100)
    consumer = consume(cluster)
    consumer.assign([TP])
    got: list[bytes | None] = []
    for record in consumer:
        got.append(record.value)
        if len(got) == 10:
            consumer.wakeup()
    assert got == values[:10]
    assert read(consumer, 90) == values[10:]


def test_wakeup_from_another_thread(cluster: FakeCluster, consume: Make) -> None:
    consumer = consume(cluster)
    consumer.assign([TP])
    poll_until(consumer, lambda: bool(cluster.requests("Fetch")))
    threading.Timer(0.2, consumer.wakeup).start()
    started = time.monotonic()
    assert consumer.poll(30.0) == []
    assert time.monotonic() - started < 10
    threading.Timer(0.2, consumer.wakeup).start()
    assert list(consumer) == []
    assert consumer.poll(0) == []


def test_close_from_another_thread_ends_an_iteration(cluster: FakeCluster) -> None:
    consumer = consumer_of(cluster, group_id="g")
    consumer.subscribe("orders")
    got: list[Record] = []
    reader = threading.Thread(target=lambda: got.extend(consumer))
    reader.start()
    fill(cluster, 5)
    eventually(lambda: len(got) == 5)
    consumer.close(10.0)
    reader.join(10.0)
    assert not reader.is_alive()
    assert cluster.committed("g")[TP] == 5, "the loop had come back for more"
    with pytest.raises(ClientClosedError):
        consumer.poll(0)
    consumer.close()


def test_two_threads_are_told_apart(cluster: FakeCluster, consume: Make) -> None:
    consumer = consume(cluster)
    consumer.assign([TP])
    inside = threading.Thread(target=consumer.poll, args=(5.0,))
    inside.start()
    eventually(lambda: cluster.requests("Fetch"))
    with pytest.raises(ConfigError, match="another thread"):
        consumer.poll(0)
    consumer.wakeup()
    inside.join(10.0)


def test_callback_may_call_back(cluster: FakeCluster, consume: Make) -> None:
    values = fill(cluster, 10)
    consumer = consume(cluster, group_id="g")
    polled: list[list[Record]] = []

    def begin(tps: list[TopicPartition]) -> None:
        consumer.seek(TP, 4)
        polled.append(consumer.poll(0))

    consumer.subscribe("orders", on_assigned=begin)
    assert read(consumer, 6) == values[4:]
    assert polled == [[]]


def test_error_of_a_callback_reaches_the_user_and_the_group_goes_on(
    cluster: FakeCluster, consume: Make
) -> None:
    values = fill(cluster, 5)
    consumer = consume(cluster, group_id="g")

    def fail(tps: list[TopicPartition]) -> None:
        raise LookupError("of the user's")

    consumer.subscribe("orders", on_assigned=fail)
    with pytest.raises(LookupError, match="of the user's"):
        for _ in polls(consumer):
            pass
    assert read(consumer, 5) == values


# --- what is committed ---


def test_iteration_commits_before_the_current_record(cluster: FakeCluster) -> None:
    fill(cluster, 10)
    with pytest.raises(LookupError), consumer_of(cluster, group_id="g") as consumer:
        consumer.subscribe("orders")
        for record in consumer:
            if record.offset == 6:
                raise LookupError("died on the record at offset 6")
    assert cluster.committed("g")[TP] == 6


def test_what_poll_returned_is_not_committed_after_an_error(cluster: FakeCluster) -> None:
    fill(cluster, 10)
    with pytest.raises(LookupError), consumer_of(cluster, group_id="g") as consumer:
        consumer.subscribe("orders")
        assert len(poll_until(consumer, lambda: consumer.metrics()["records"] >= 10)) == 10
        consumer.seek(TP, 4)
        while not consumer.poll(1.0, max_records=3):
            pass
        while not consumer.poll(1.0, max_records=3):
            pass
        raise LookupError("died on what the last poll returned")
    assert cluster.committed("g")[TP] == 7


def test_what_poll_returned_is_committed_by_close(cluster: FakeCluster) -> None:
    fill(cluster, 10)
    with consumer_of(cluster, group_id="g") as consumer:
        consumer.subscribe("orders")
        read(consumer, 10)
    assert cluster.committed("g")[TP] == 10


def test_auto_commit_by_the_clock(cluster: FakeCluster, consume: Make) -> None:
    fill(cluster, 10)
    consumer = consume(cluster, group_id="g", auto_commit_interval_ms=50, max_poll_records=4)
    consumer.subscribe("orders")
    while not consumer.poll(1.0):
        pass
    # What was returned is not done: only the next poll says so.
    time.sleep(0.1)  # two intervals
    assert cluster.committed("g").get(TP, 0) == 0
    poll_until(consumer, lambda: cluster.committed("g").get(TP) == 10)


def test_explicit_commit_covers_the_current_record(cluster: FakeCluster, consume: Make) -> None:
    fill(cluster, 10)
    consumer = consume(cluster, group_id="g", enable_auto_commit=False)
    consumer.subscribe("orders")
    for record in consumer:
        if record.offset == 3:
            consumer.commit()
            break
    assert cluster.committed("g")[TP] == 4
    assert consumer.committed([TP, OTHER])[TP] == OffsetAndMetadata(4, "", 0)


def test_closing_does_not_undo_an_explicit_commit(cluster: FakeCluster) -> None:
    fill(cluster, 10)
    with consumer_of(cluster, group_id="g") as consumer:
        consumer.subscribe("orders")
        for record in consumer:
            if record.offset == 3:
                consumer.commit()
                break
    assert cluster.committed("g")[TP] == 4


def test_without_auto_commit_nothing_is_committed(cluster: FakeCluster) -> None:
    fill(cluster, 10)
    with consumer_of(cluster, group_id="g", enable_auto_commit=False) as consumer:
        consumer.subscribe("orders")
        read(consumer, 10)
    assert cluster.committed("g") == {}


# --- what cannot be read ---


def made(records: list[Record]) -> list[Any]:
    """The values that a deserializer made."""
    return [record.value for record in records]


def test_bad_value_names_its_place_and_can_be_skipped(cluster: FakeCluster, consume: Make) -> None:
    cluster.append(TP, batch(b"1", b"2", b"x", b"4"))
    consumer = consume(cluster, value_deserializer=int)
    consumer.assign([TP])
    assert made(poll_until(consumer, lambda: consumer.position(TP) == 2)) == [1, 2]
    for _ in range(2):
        with pytest.raises(SerializationError, match=r"orders\[0\] at offset 2.*seek") as caught:
            consumer.poll(1.0)
        assert vars(caught.value)["offset"] == 2
    assert consumer.position(TP) == 2
    consumer.seek(TP, 3)
    assert made(poll_until(consumer, lambda: consumer.position(TP) == 4)) == [4]


def test_bad_value_in_an_iteration(cluster: FakeCluster, consume: Make) -> None:
    cluster.append(TP, batch(b"1", b"x", b"3"))
    consumer = consume(cluster, value_deserializer=int)
    consumer.assign([TP])
    got: list[Any] = []
    with pytest.raises(SerializationError):
        for record in consumer:
            got.append(record.value)
    consumer.seek(TP, 2)
    for record in consumer:
        got.append(record.value)
        break
    assert got == [1, 3]


def test_good_batches_before_a_damaged_one_are_handed_out(
    cluster: FakeCluster, consume: Make
) -> None:
    cluster.append(TP, batch(b"a", b"b"))
    damaged = bytearray(batch(b"c"))
    damaged[-1] ^= 1
    cluster.append(TP, bytes(damaged))
    cluster.append(TP, batch(b"d"))
    consumer = consume(cluster)
    consumer.assign([TP])
    assert read(consumer, 2) == [b"a", b"b"]
    for _ in range(2):
        with pytest.raises(CorruptRecord, match=r"orders\[0\], batch at offset 2: the CRC"):
            for _ in polls(consumer):
                pass
    consumer.seek(TP, 3)
    assert read(consumer, 1) == [b"d"]


def test_arrow_and_records_mix(cluster: FakeCluster, consume: Make) -> None:
    values = fill(cluster, 40, size=8)
    consumer = consume(cluster)
    consumer.assign([TP])
    got: list[bytes] = take(consumer, 3)
    got += [each.value or b"" for each in consumer.poll(1.0, max_records=3)]
    while len(got) < 40:
        got += consumer.poll_arrow(1.0, max_records=10)["value"].to_pylist()
    assert got == values
    assert consumer.position(TP) == 40
    assert consumer.poll_arrow(0).num_rows == 0


def test_arrow_gives_bytes_only(cluster: FakeCluster, consume: Make) -> None:
    with pytest.raises(ConfigError, match="deserializers"):
        consume(cluster, value_deserializer=int).poll_arrow(0)


def test_batches_by_partition(cluster: FakeCluster, consume: Make) -> None:
    first, second = fill(cluster, 5), fill(cluster, 5, OTHER)
    consumer = consume(cluster)
    consumer.assign([TP, OTHER])
    got: dict[TopicPartition, list[bytes | None]] = {TP: [], OTHER: []}
    while sum(map(len, got.values())) < 10:
        for each in consumer.poll_batches(1.0):
            got[each.tp] += [record.value for record in each.records]
    assert got == {TP: first, OTHER: second}
