"""Ranges of offsets of a real broker: transactions, codecs, and what Java's client wrote."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import Producer as Librdkafka

from kclient import Admin, NewTopic, TopicPartition
from kclient.fetch.range_reader import RangeReader


@pytest.fixture
def tp(bootstrap_servers: str) -> TopicPartition:
    topic = f"range-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=1)])
    return TopicPartition(topic, 0)


def write(bootstrap_servers: str, tp: TopicPartition, *values: bytes, **options: object) -> None:
    producer = Librdkafka({"bootstrap.servers": bootstrap_servers, **options})
    for value in values:
        producer.produce(tp.topic, value, key=b"k" + value, headers=[("h", value)])
    producer.flush(30)


def write_in_transaction(
    bootstrap_servers: str, tp: TopicPartition, *values: bytes, commit: bool
) -> None:
    producer = Librdkafka(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": uuid.uuid4().hex}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(tp.topic, value)
    producer.flush(30)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def read(bootstrap_servers: str, tp: TopicPartition, isolation: str) -> list[bytes]:
    with (
        RangeReader(bootstrap_servers, isolation_level=isolation) as reader,
        Admin(bootstrap_servers) as admin,
    ):
        end = admin.list_offsets([tp])[tp].offset
        assert end is not None
        return [
            value
            for some in reader.read(tp, 0, end, timeout=20)
            for value in some["value"].to_pylist()
        ]


def test_aborted_records_are_left_out(bootstrap_servers: str, tp: TopicPartition) -> None:
    write(bootstrap_servers, tp, b"plain")
    write_in_transaction(bootstrap_servers, tp, b"no", b"never", commit=False)
    write_in_transaction(bootstrap_servers, tp, b"yes", b"indeed", commit=True)
    committed = read(bootstrap_servers, tp, "read_committed")
    assert committed == [b"plain", b"yes", b"indeed"]
    everything = read(bootstrap_servers, tp, "read_uncommitted")
    assert everything == [b"plain", b"no", b"never", b"yes", b"indeed"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_columns_of_every_codec(bootstrap_servers: str, tp: TopicPartition, codec: str) -> None:
    values = [b"%05d" % number for number in range(500)]
    write(bootstrap_servers, tp, *values, **{"compression.type": codec})
    with RangeReader(bootstrap_servers, max_partition_fetch_bytes=4096) as reader:
        rows = [row for some in reader.read(tp, 100, 400) for row in some.to_pylist()]
    assert [row["offset"] for row in rows] == list(range(100, 400))
    assert [row["value"] for row in rows] == values[100:400]
    first = rows[0]
    assert (first["topic"], first["partition"], first["key"]) == (*tp, b"k00100")
    assert first["headers"] == [{"key": "h", "value": b"00100"}]


def test_a_reader_reads_many_ranges(bootstrap_servers: str, tp: TopicPartition) -> None:
    write(bootstrap_servers, tp, *(b"%d" % number for number in range(100)))
    with RangeReader(bootstrap_servers) as reader:
        for start in range(0, 100, 25):
            found = [
                each
                for some in reader.read(tp, start, start + 25, max_rows=10)
                for each in some["offset"].to_pylist()
            ]
            assert found == list(range(start, start + 25))
