"""Records written to a real broker, read back by confluent-kafka."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import kclient
from kclient import Producer, ProducerRecord, RecordMetadata, TopicPartition
from kclient.errors import InvalidRequest, RecordTooLarge, TopicNotFound

from ..exchange import new_name
from .reading import by_key, create_topic, read_all


def test_every_way_to_send(bootstrap_servers: str) -> None:
    topic = create_topic(bootstrap_servers, new_name(), 3)
    with Producer(bootstrap_servers) as producer:
        sent = [producer.send(topic, b"send %d" % n, key=b"a") for n in range(20)]
        futures = [producer.submit(topic, b"submit %d" % n, key=b"b") for n in range(2_000)]
        report = producer.send_many(topic, ((b"c", b"many %d" % n) for n in range(5_000)))
        producer.flush()
        landed = [future.result(0) for future in futures]
    found = read_all(bootstrap_servers, topic)
    assert by_key(found) == {
        b"a": [b"send %d" % n for n in range(20)],
        b"b": [b"submit %d" % n for n in range(2_000)],
        b"c": [b"many %d" % n for n in range(5_000)],
    }
    places = {(each.partition, each.offset): each for each in found}
    for told, value in [(sent[7], b"send 7"), (landed[1_234], b"submit 1234")]:
        record = places[told.partition, told.offset]
        assert (record.value, record.timestamp) == (value, told.timestamp)
    assert report.count == 5_000
    ((tp, (first, last)),) = report.offsets.items()
    assert places[tp.partition, first].value == b"many 0"
    assert places[tp.partition, last].value == b"many 4999"


def test_records_without_keys_use_every_partition(bootstrap_servers: str) -> None:
    topic = create_topic(bootstrap_servers, new_name(), 4)
    with Producer(bootstrap_servers, batch_size=2_000) as producer:
        report = producer.send_many(topic, (b"x" * 100 for _ in range(5_000)))
    assert set(report.offsets) == {TopicPartition(topic, n) for n in range(4)}
    assert len(read_all(bootstrap_servers, topic)) == 5_000


def test_nulls_headers_partitions_and_timestamps(bootstrap_servers: str) -> None:
    topic = create_topic(bootstrap_servers, new_name(), 2)
    headers = [("h", b"1"), ("h", None), ("ü", b"")]
    with Producer(bootstrap_servers) as producer:
        assert producer.send(topic, partition=1, timestamp_ms=1) == RecordMetadata(topic, 1, 0, 1)
        producer.send(topic, b"", key=b"", headers=headers, partition=1, timestamp_ms=2)
        producer.send_many(topic, [ProducerRecord("", b"v", None, headers, 1, 3)])
    found = read_all(bootstrap_servers, topic)
    assert [tuple(each) for each in found] == [
        (1, 0, None, None, [], 1),
        (1, 1, b"", b"", headers, 2),
        (1, 2, None, b"v", headers, 3),
    ]


CODECS = (None, "gzip", "gzip:1", "gzip:9", "snappy", "lz4", "lz4:9", "zstd", "zstd:1", "zstd:19")


@pytest.mark.parametrize("codec", CODECS)
def test_codecs(codec: str | None, bootstrap_servers: str) -> None:
    topic = create_topic(bootstrap_servers, new_name())
    values = [b'{"id": %d, "name": "somebody"}' % n for n in range(3_000)]
    with Producer(bootstrap_servers, compression_type=codec) as producer:
        producer.send_many(topic, values)
        producer.send(topic, b"last")
        ratio = producer.metrics()["compression_ratio"]
    assert [each.value for each in read_all(bootstrap_servers, topic)] == [*values, b"last"]
    assert ratio > 2 if codec else ratio == 1


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(acks: int | str, bootstrap_servers: str) -> None:
    topic = create_topic(bootstrap_servers, new_name())
    with Producer(bootstrap_servers, acks=acks) as producer:
        landed = [producer.send(topic, b"%d" % n).offset for n in range(10)]
        producer.send_many(topic, [b"x"] * 100)
    assert landed == ([-1] * 10 if acks == 0 else list(range(10)))
    end = time.monotonic() + 30  # without acks nobody says when they are there
    while len(read_all(bootstrap_servers, topic)) < 110:
        assert time.monotonic() < end


def test_the_time_of_the_log_is_told(bootstrap_servers: str) -> None:
    topic = create_topic(bootstrap_servers, new_name(), message_timestamp_type="LogAppendTime")
    with Producer(bootstrap_servers) as producer:
        told = producer.send(topic, b"", timestamp_ms=5).timestamp
    (record,) = read_all(bootstrap_servers, topic)
    assert record.timestamp == told > 5


def test_batches_and_records_too_large_for_the_topic(bootstrap_servers: str) -> None:
    topic = create_topic(bootstrap_servers, new_name(), max_message_bytes="2000")
    values = [b"%04d" % n + b"x" * 96 for n in range(1_000)]
    with Producer(bootstrap_servers) as producer:
        report = producer.send_many(topic, values)
        with pytest.raises(RecordTooLarge, match="max.message.bytes"):
            producer.send(topic, b"x" * 3_000)
        producer.send(topic, b"after")
    assert report.offsets == {TopicPartition(topic, 0): (0, 999)}
    assert [each.value for each in read_all(bootstrap_servers, topic)] == [*values, b"after"]


def test_many_threads_share_a_producer(bootstrap_servers: str) -> None:
    topic = create_topic(bootstrap_servers, new_name(), 3)
    with Producer(bootstrap_servers) as producer:

        def work(key: bytes) -> None:
            for n in range(200):
                producer.send(topic, b"%d" % n, key=key)

        threads = [threading.Thread(target=work, args=(b"%d" % n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        shared = producer.metrics()["records_per_batch"]
    found = by_key(read_all(bootstrap_servers, topic))
    assert found == {b"%d" % n: [b"%d" % m for m in range(200)] for n in range(8)}
    assert shared > 1


def test_from_properties(bootstrap_servers: str, tmp_path: Path) -> None:
    topic = create_topic(bootstrap_servers, new_name())
    path = tmp_path / "client.properties"
    path.write_text(
        f"bootstrap.servers={bootstrap_servers}\nlinger.ms=1\ncompression.type=gzip\nacks=all\n"
        "key.serializer=org.apache.kafka.common.serialization.StringSerializer\n"
    )
    with Producer.from_properties(path) as producer:
        producer.send(topic, b"by a file")
    properties = {"metadata.broker.list": bootstrap_servers, "message.timeout.ms": "10000"}
    with Producer.from_properties(properties, client_id="me") as producer:
        producer.send(topic, b"by librdkafka's names")
    assert len(read_all(bootstrap_servers, topic)) == 2


def test_serializers(bootstrap_servers: str) -> None:
    topic = create_topic(bootstrap_servers, new_name())
    with Producer(bootstrap_servers, key_serializer=str.encode, value_serializer=repr_bytes) as p:
        p.send(topic, {"a": 1}, key="k")
        p.send_many(topic, [("k", [1]), ("k", None)])
    found = by_key(read_all(bootstrap_servers, topic))
    assert found == {b"k": [b"{'a': 1}", b"[1]", None]}


def repr_bytes(value: object) -> bytes:
    return repr(value).encode()


def test_wrong_topic_names(bootstrap_servers: str) -> None:
    with Producer(bootstrap_servers) as producer:
        for name in ("no spaces", "..", "x" * 250):
            with pytest.raises((InvalidRequest, TopicNotFound), match="topic"):
                producer.send(name, b"", timeout=10)


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    start = "import sys; from kclient import Producer; address, topic = sys.argv[1:]\n"
    root = str(Path(kclient.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", start + code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": root},
    )


@pytest.mark.parametrize(
    "code",
    [
        "with Producer(address, linger_ms=60_000) as producer:\n"
        "    for n in range(1000): producer.submit(topic, b'%d' % n)\n",
        "producer = Producer(address, linger_ms=60_000)\n"
        "for n in range(1000): producer.submit(topic, b'%d' % n)\n",
        "producer = Producer(address, linger_ms=60_000)\n"
        "for n in range(1000): producer.submit(topic, b'%d' % n)\n"
        "sys.exit()\n",
    ],
    ids=["with", "end", "sys.exit"],
)
def test_the_end_of_a_program_loses_nothing(code: str, bootstrap_servers: str) -> None:
    topic = create_topic(bootstrap_servers, new_name())
    done = run(code, bootstrap_servers, topic)
    assert (done.returncode, done.stderr) == (0, "")
    assert [each.value for each in read_all(bootstrap_servers, topic)] == [
        b"%d" % n for n in range(1000)
    ]
