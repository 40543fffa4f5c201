"""Reading from a real broker: every way to take records, every way to choose where."""

from __future__ import annotations

import time
from collections.abc import Iterator

import confluent_kafka
import pytest

from kclient import Consumer, Record, TopicPartition
from kclient.errors import OffsetOutOfRange, SerializationError, TopicNotFound
from kclient.testing import LocalKafka

from ..exchange import new_name
from .steps import consumer_of, new_topic, partitions_of, poll_until, polls, read, write


@pytest.fixture(scope="module")
def servers(local_kafka: LocalKafka) -> str:
    return local_kafka.bootstrap_servers


@pytest.fixture(scope="module")
def filled(servers: str) -> tuple[str, list[bytes]]:
    """A topic of one partition with 3,000 records, a second apart from the other."""
    topic = new_topic(servers)
    values = [b"value %d" % number for number in range(3000)]
    times = [1_700_000_000_000 + number * 1000 for number in range(3000)]
    write(servers, topic, values, timestamps=times)
    return topic, values


@pytest.fixture
def consumer(servers: str, filled: tuple[str, list[bytes]]) -> Iterator[Consumer]:
    with consumer_of(servers) as consumer:
        consumer.assign([TopicPartition(filled[0], 0)])
        yield consumer


def test_poll(consumer: Consumer, filled: tuple[str, list[bytes]]) -> None:
    assert read(consumer, count=3000) == filled[1]


def test_iterate(consumer: Consumer, filled: tuple[str, list[bytes]]) -> None:
    got = []
    for record in consumer:
        got.append(record.value)
        if len(got) == 3000:
            break
    assert got == filled[1]


def test_batches(consumer: Consumer, filled: tuple[str, list[bytes]]) -> None:
    got: list[bytes | None] = []
    while len(got) < 3000:
        for batch in consumer.poll_batches(5.0):
            assert batch.tp == TopicPartition(filled[0], 0)
            got += [record.value for record in batch.records]
    assert got == filled[1]


def test_arrow(consumer: Consumer, filled: tuple[str, list[bytes]]) -> None:
    values: list[bytes] = []
    offsets: list[int] = []
    while len(values) < 3000:
        table = consumer.poll_arrow(5.0)
        values += table["value"].to_pylist()
        offsets += table["offset"].to_pylist()
    assert values == filled[1]
    assert offsets == list(range(3000))


# --- where to read: each without a poll before it ---


def test_position_and_offsets(consumer: Consumer, filled: tuple[str, list[bytes]]) -> None:
    tp = TopicPartition(filled[0], 0)
    assert consumer.position(tp) == 0
    assert consumer.beginning_offsets([tp]) == {tp: 0}
    assert consumer.end_offsets([tp]) == {tp: 3000}
    assert consumer.lag() == {tp: 3000}


def test_seek(consumer: Consumer, filled: tuple[str, list[bytes]]) -> None:
    tp = TopicPartition(filled[0], 0)
    consumer.seek(tp, 2990)
    assert consumer.position(tp) == 2990
    assert read(consumer, count=10) == filled[1][2990:]
    consumer.seek_to_beginning()
    assert consumer.position(tp) == 0
    consumer.seek_to_end([tp])
    assert consumer.position(tp) == 3000
    consumer.seek_to_timestamp(1_700_000_000_000 + 2_500_500)
    assert consumer.position(tp) == 2501
    consumer.seek_to_timestamp(1_800_000_000_000)
    assert consumer.position(tp) == 3000


def test_offsets_for_times(consumer: Consumer, filled: tuple[str, list[bytes]]) -> None:
    tp = TopicPartition(filled[0], 0)
    found = consumer.offsets_for_times({tp: 1_700_000_000_000 + 41_500})[tp]
    assert found is not None
    assert (found.offset, found.timestamp) == (42, 1_700_000_000_000 + 42_000)
    assert consumer.offsets_for_times({tp: 1_800_000_000_000}) == {tp: None}


@pytest.mark.parametrize(
    ("policy", "start"), [("earliest", 0), ("latest", 20), ("by_duration:PT1H", 10)]
)
def test_reset(servers: str, policy: str, start: int) -> None:
    topic = new_topic(servers)
    now = int(time.time() * 1000)
    old, new = [now - 7_200_000] * 10, [now - 60_000] * 10
    write(servers, topic, [b"%d" % n for n in range(20)], timestamps=old + new)
    tp = TopicPartition(topic, 0)
    with consumer_of(servers, auto_offset_reset=policy) as consumer:
        consumer.assign([tp])
        assert consumer.position(tp) == start


def test_no_reset(servers: str, filled: tuple[str, list[bytes]]) -> None:
    tp = TopicPartition(filled[0], 0)
    options = {"auto_offset_reset": "none", "group_id": new_name("g")}
    with consumer_of(servers, **options) as consumer:
        consumer.assign([tp])
        with pytest.raises(OffsetOutOfRange, match="no committed offset"):
            for _ in polls(consumer):
                pass
        consumer.commit({tp: 2995})
        assert read(consumer, count=5) == filled[1][2995:]


def test_missing_partition(servers: str, filled: tuple[str, list[bytes]]) -> None:
    with consumer_of(servers) as consumer:
        consumer.assign([TopicPartition(filled[0], 7)])
        with pytest.raises(TopicNotFound, match="no partition 7"):
            for _ in polls(consumer):
                pass


def test_subscription_without_a_group(servers: str) -> None:
    topic = new_topic(servers, partitions=3)
    write(servers, topic, [b"%d" % number for number in range(30)])
    with consumer_of(servers) as consumer:
        consumer.subscribe(topic)
        assert sorted(read(consumer, count=30), key=int) == [b"%d" % n for n in range(30)]
        assert consumer.assignment() == set(partitions_of(topic, 3))


# --- what records may be like ---


def test_record_larger_than_the_limits(servers: str) -> None:
    topic = new_topic(servers)
    large = [b"a" * 300_000, b"b", b"c" * 300_000]
    write(servers, topic, large)
    with consumer_of(servers, max_partition_fetch_bytes=1000, fetch_max_bytes=500) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert read(consumer, count=3) == large


def test_null_keys_headers_and_deserializers(servers: str) -> None:
    topic = new_topic(servers)
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    producer.produce(topic, value=None, key=b"k", headers=[("h", b"1"), ("h", None)])
    producer.produce(topic, value=b"12", key=None)
    producer.produce(topic, value=b"twelve", key=None)
    producer.produce(topic, value=b"13", key=b"")
    assert producer.flush(30) == 0
    tp = TopicPartition(topic, 0)
    with consumer_of(servers, value_deserializer=int) as consumer:
        consumer.assign([tp])
        first, second = _read_up_to(consumer, tp, 2)
        assert list(first.headers) == [("h", b"1"), ("h", None)]
        assert [first.key, first.value, second.key, str(second.value)] == [b"k", None, None, "12"]
        with pytest.raises(SerializationError, match="offset 2") as caught:
            consumer.poll(5.0)
        consumer.seek(tp, vars(caught.value)["offset"] + 1)
        assert [str(record.value) for record in _read_up_to(consumer, tp, 4)] == ["13"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed(servers: str, codec: str) -> None:
    topic = new_topic(servers)
    values = [b"%d " % number * 20 for number in range(500)]
    write(servers, topic, values, config={"compression.type": codec})
    with consumer_of(servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert read(consumer, count=500) == values


def test_transactions(servers: str) -> None:
    """Committed, aborted and open ones, of two producers, between plain records."""
    topic = new_topic(servers)
    first, second = (_transactional(servers) for _ in range(2))
    write(servers, topic, [b"plain 1"])
    for producer, what, is_committed in (
        (first, b"committed 1", True),
        (first, b"aborted 1", False),
        (second, b"aborted 2", False),
        (first, b"committed 2", True),
        (second, b"committed 3", True),
    ):
        producer.begin_transaction()
        for number in range(3):
            producer.produce(topic, b"%s-%d" % (what, number))
        producer.flush()
        write(servers, topic, [b"plain"])
        producer.commit_transaction(20) if is_committed else producer.abort_transaction(20)
    second.begin_transaction()
    second.produce(topic, b"open")
    second.flush()
    write(servers, topic, [b"behind the open one"])
    tp = TopicPartition(topic, 0)
    with consumer_of(servers, isolation_level="read_committed") as consumer:
        consumer.assign([tp])
        got = read(consumer, count=15)
        plain = [b"plain 1", *[b"plain"] * 5]
        committed = [b"committed %d-%d" % (n, m) for n in (1, 2, 3) for m in range(3)]
        assert sorted(got) == sorted(plain + committed)
        assert consumer.poll(0.5) == []
        stable = consumer.end_offsets([tp])[tp]
        poll_until(lambda: consumer.position(tp) == stable, consumer)
        second.abort_transaction(20)
        assert read(consumer, count=1) == [b"behind the open one"]
    with consumer_of(servers, isolation_level="read_uncommitted") as consumer:
        consumer.assign([tp])
        assert len(read(consumer, count=23)) == 23
        table_rows = 0
        consumer.seek_to_beginning()
        while table_rows < 23:
            table_rows += consumer.poll_arrow(5.0).num_rows
        assert table_rows == 23


def _transactional(servers: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "transactional.id": new_name("t")}
    )
    producer.init_transactions(30)
    return producer


def _read_up_to(consumer: Consumer, tp: TopicPartition, end: int) -> list[Record]:
    return poll_until(lambda: consumer.position(tp) >= end, consumer)


def test_compacted_topic(servers: str) -> None:
    """Offsets that compaction has taken out are gone over, also at the end of a batch."""
    topic = new_topic(
        servers,
        configs={
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.01",
            "max.compaction.lag.ms": "100",
        },
    )
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 20})
    for number in range(200):
        producer.produce(topic, b"%d" % number, key=b"%d" % (number % 3))
    assert producer.flush(30) == 0
    tp = TopicPartition(topic, 0)
    with consumer_of(servers) as consumer:
        consumer.assign([tp])
        end = time.monotonic() + 60
        while True:
            producer.produce(topic, b"roll", key=b"roll")
            assert producer.flush(30) == 0
            consumer.seek_to_beginning()
            last = consumer.end_offsets([tp])[tp]
            got = _read_up_to(consumer, tp, last)
            offsets = [record.offset for record in got]
            assert offsets == sorted(offsets)
            if len(offsets) < 200:
                return
            assert time.monotonic() < end, "nothing was compacted"
            time.sleep(0.5)
