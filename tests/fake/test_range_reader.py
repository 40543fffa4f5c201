"""Ranges of offsets read through every fault: each record once, none before or behind."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator

import pytest

from kclient import ProducerRecord, TopicPartition, records
from kclient.errors import (
    ConfigError,
    CorruptRecord,
    KafkaTimeout,
    OffsetOutOfRange,
    TopicNotFound,
)
from kclient.fetch.range_reader import RangeReader
from kclient.protocol import Message
from kclient.protocol.messages.fetch import FetchResponse
from kclient.testing import FakeCluster
from kclient.testing.fake import (
    Fault,
    SeenRequest,
    alter,
    close_after,
    close_before,
    close_midway,
    error_code,
    move_leader,
)

TP = TopicPartition("orders", 0)
COUNT = 60


@pytest.fixture
def cluster(fake_cluster: Callable[..., FakeCluster]) -> FakeCluster:
    made = fake_cluster(brokers=2, topics={"orders": 1})
    for first in range(0, COUNT, 5):
        made.append(TP, batch(*range(first, first + 5)))
    made.move_leader(TP, 1)
    return made


@pytest.fixture
def reader(cluster: FakeCluster) -> Iterator[RangeReader]:
    with RangeReader(
        cluster.bootstrap_servers,
        retry_backoff_ms=10,
        fetch_max_wait_ms=50,
        max_partition_fetch_bytes=300,
    ) as made:
        yield made


def batch(*numbers: int, **how: object) -> bytes:
    some = [ProducerRecord("orders", b"value %d" % number) for number in numbers]
    return records.encode(some, **how)  # type: ignore[arg-type]


def offsets(reader: RangeReader, start: int, end: int, **how: object) -> list[int]:
    found = []
    for some in reader.read(TP, start, end, timeout=5, **how):  # type: ignore[arg-type]
        assert some.num_rows > 0
        found += some["offset"].to_pylist()
        assert some["value"].to_pylist() == [
            b"value %d" % number for number in some["offset"].to_pylist()
        ]
    return found


@pytest.mark.parametrize(
    ("start", "end"), [(0, COUNT), (0, 1), (7, 8), (3, 52), (5, 10), (59, 60), (20, 20)]
)
def test_a_range_is_read_whole_and_no_more(reader: RangeReader, start: int, end: int) -> None:
    assert offsets(reader, start, end) == list(range(start, end))


def test_batches_have_no_more_rows_than_asked_for(reader: RangeReader) -> None:
    sizes = [some.num_rows for some in reader.read(TP, 0, COUNT, max_rows=3)]
    assert max(sizes) == 3
    assert sum(sizes) == COUNT


@pytest.mark.parametrize(
    "fault",
    [
        close_before(),
        close_after(),
        close_midway(),
        error_code(6),
        error_code(74),
        error_code(75),
        error_code(3),
        move_leader(TP, 2),
    ],
    ids=repr,
)
@pytest.mark.parametrize("nth", [1, 2, 4])
def test_what_goes_wrong_once_costs_no_record(
    cluster: FakeCluster, reader: RangeReader, fault: Fault, nth: int
) -> None:
    scripted = cluster.on("Fetch", fault, nth=nth)
    assert offsets(reader, 2, COUNT - 2) == list(range(2, COUNT - 2))
    scripted.await_hit(timeout=0.1)


def test_the_next_request_leaves_before_the_records_are_looked_at(
    cluster: FakeCluster, reader: RangeReader
) -> None:
    reading = reader.read(TP, 0, COUNT)
    next(reading)
    cluster.await_request("Fetch", nth=2, timeout=5)
    reading.close()


def test_deleted_records_are_told_or_skipped(cluster: FakeCluster, reader: RangeReader) -> None:
    cluster.delete_records(TP, 12)
    with pytest.raises(OffsetOutOfRange, match="offsets 5 to 11 are deleted") as caught:
        offsets(reader, 5, 40)
    assert pickle.loads(pickle.dumps(caught.value)).first == 12
    assert offsets(reader, 5, 40, skip_lost=True) == list(range(12, 40))
    assert offsets(reader, 5, 9, skip_lost=True) == []


def test_a_range_beyond_the_end(cluster: FakeCluster, reader: RangeReader) -> None:
    with pytest.raises(OffsetOutOfRange, match="beyond its end"):
        offsets(reader, COUNT + 10, COUNT + 20)
    assert offsets(reader, COUNT + 10, COUNT + 20, skip_lost=True) == []
    with pytest.raises(KafkaTimeout, match=f"records up to offset {COUNT} only"):
        list(reader.read(TP, COUNT, COUNT + 5, timeout=0.3))


def test_records_that_come_while_it_waits(cluster: FakeCluster, reader: RangeReader) -> None:
    reading = reader.read(TP, COUNT - 1, COUNT + 2, timeout=5)
    assert next(reading).num_rows == 1
    cluster.append(TP, batch(COUNT, COUNT + 1))
    assert [row for some in reading for row in some["offset"].to_pylist()] == [60, 61]


def test_damage_is_told(cluster: FakeCluster, reader: RangeReader) -> None:
    def damage(seen: SeenRequest, message: Message) -> Message:
        assert isinstance(message, FetchResponse)
        data = message.responses[0].partitions[0]
        assert data.records
        broken = bytearray(data.records)
        broken[70] ^= 0xFF
        data.records = bytes(broken)
        return message

    cluster.on("Fetch", alter(damage))
    with pytest.raises(CorruptRecord, match=r"orders\[0\]"):
        offsets(reader, 0, 10)


def test_what_no_retry_mends(reader: RangeReader) -> None:
    with pytest.raises(TopicNotFound, match="nowhere"):
        list(reader.read(TopicPartition("nowhere", 0), 0, 5, timeout=10))
    with pytest.raises(ConfigError, match="no range"):
        list(reader.read(TP, 5, 3))


def test_unreachable_brokers_end_in_a_timeout_with_the_reason(cluster: FakeCluster) -> None:
    with RangeReader(cluster.bootstrap_servers) as reader:
        for node in (1, 2):
            cluster.kill(node)
        with pytest.raises(KafkaTimeout, match="orders") as caught:
            list(reader.read(TP, 0, 5, timeout=0.5))
    assert "refused" in str(caught.value)
