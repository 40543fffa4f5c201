"""Old brokers: 0.8.2 keeps offsets but no groups, 0.9 has groups, later ones have more."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kclient import Consumer, TopicPartition
from kclient.errors import KafkaError
from kclient.records import encode
from kclient.testing import LocalKafka
from kclient.testing.releases import parse_version
from kclient.types import ProducerRecord

from ..exchange import leader, new_name, produce, until
from .steps import consumer_of, poll_until, polls, read

pytestmark = pytest.mark.every_kafka
VERSIONS = ["0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "2.0.1", "2.4.1", "3.9.1"]


@pytest.fixture(scope="module", params=VERSIONS)
def kafka(
    request: pytest.FixtureRequest, local_kafka_factory: Callable[..., LocalKafka]
) -> Iterator[LocalKafka]:
    with local_kafka_factory(version=request.param) as kafka:
        yield kafka


def write(kafka: LocalKafka, *values: bytes) -> str:
    """Records in the newest format that the broker knows, in a new topic of one partition."""
    topic, address = new_name("old"), kafka.bootstrap_servers
    until(lambda: leader(address, topic, 0) >= 0, f"{topic} is made by asking for it")
    number = parse_version(kafka.version)
    magic, version = (0, 0) if number < (0, 10) else (1, 2) if number < (0, 11) else (2, 3)
    for value in values:
        record = ProducerRecord(topic, value, timestamp_ms=1000 if magic else None)
        assert not produce(address, topic, encode([record], magic=magic), version).error_code
    return topic


@pytest.fixture
def topic(kafka: LocalKafka) -> str:
    """A topic with ten records: 0 to 9."""
    return write(kafka, *(b"%d" % number for number in range(10)))


def test_assigned(kafka: LocalKafka, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    with consumer_of(kafka.bootstrap_servers) as consumer:
        consumer.assign([tp])
        assert read(consumer, count=10) == [b"%d" % number for number in range(10)]
        assert consumer.end_offsets([tp]) == {tp: 10}
        consumer.seek_to_beginning()
        assert consumer.position(tp) == 0
        consumer.seek(tp, 7)
        assert read(consumer, count=3) == [b"7", b"8", b"9"]


def test_large_record_behind_a_small_limit(kafka: LocalKafka) -> None:
    """Before 0.10.1 brokers cut at the limit: it has to grow."""
    topic = write(kafka, b"x" * 100_000)
    with consumer_of(kafka.bootstrap_servers, max_partition_fetch_bytes=1000) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert read(consumer, count=1) == [b"x" * 100_000]


def test_offsets_are_kept(kafka: LocalKafka, topic: str) -> None:
    tp, group = TopicPartition(topic, 0), new_name("g")
    with consumer_of(kafka.bootstrap_servers, group_id=group) as consumer:
        consumer.assign([tp])
        read(consumer, count=10)
        consumer.commit({tp: 6})
        found = consumer.committed([tp])[tp]
        assert found is not None
        assert found.offset == 6
        consumer.seek(tp, 6)  # so that closing commits nothing else
    with consumer_of(kafka.bootstrap_servers, group_id=group) as consumer:
        consumer.assign([tp])
        assert read(consumer, count=4) == [b"6", b"7", b"8", b"9"]


def test_groups(kafka: LocalKafka, topic: str) -> None:
    group = new_name("g")
    options = {"group_id": group, "heartbeat_interval_ms": 300}
    with (
        consumer_of(kafka.bootstrap_servers, **options) as first,
        consumer_of(kafka.bootstrap_servers, **options) as second,
    ):
        first.subscribe(topic)
        if parse_version(kafka.version) < (0, 9):
            with pytest.raises(KafkaError, match="JoinGroup"):
                for _ in polls(first):
                    pass
            return
        assert len(read(first, count=10)) == 10
        second.subscribe(topic)
        poll_until(lambda: _is_shared(first, second), first, second)
        first.close()
        poll_until(lambda: len(second.assignment()) == 1, second)


def _is_shared(first: Consumer, second: Consumer) -> bool:
    generations = {each.group_metadata().generation_id for each in (first, second)}
    owned = [*first.assignment(), *second.assignment()]
    return len(generations) == 1 and -1 not in generations and len(owned) == 1
