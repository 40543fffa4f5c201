"""The consumer protocol (KIP-848) on a real broker, beside Java's members, and online migration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import confluent_kafka
import pytest

from kclient import Admin, Consumer
from kclient.errors import UnsupportedVersion
from kclient.testing import LocalKafka

from ..exchange import new_name
from .steps import consumer_of, new_topic, partitions_of, poll_until, polls, read, write


@pytest.fixture(scope="module")
def servers(local_kafka_factory: Callable[..., LocalKafka]) -> Iterator[str]:
    properties = {
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "500",
    }
    with local_kafka_factory(properties=properties) as kafka:
        yield kafka.bootstrap_servers


@pytest.fixture
def consume(servers: str) -> Iterator[Callable[..., Consumer]]:
    with ExitStack() as stack:

        def make(**options: Any) -> Consumer:
            consumer = consumer_of(servers, **{"group_protocol": "consumer", **options})
            stack.callback(consumer.close)
            return consumer

        yield make


def is_shared(topic: str, count: int, *consumers: Consumer) -> bool:
    owned = [tp for consumer in consumers for tp in consumer.assignment()]
    return sorted(owned) == partitions_of(topic, count) and all(c.assignment() for c in consumers)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_come_and_go(servers: str, consume: Callable[..., Consumer], assignor: str) -> None:
    topic, group = new_topic(servers, partitions=6), new_name("group")
    first, second = (consume(group_id=group, group_remote_assignor=assignor) for _ in range(2))
    first.subscribe(topic)
    got = poll_until(lambda: is_shared(topic, 6, first), first)
    write(servers, topic, [b"%d" % number for number in range(60)])
    second.subscribe(topic)
    got += poll_until(lambda: is_shared(topic, 6, first, second), first, second)
    second.close()
    got += poll_until(lambda: is_shared(topic, 6, first), first)
    write(servers, topic, [b"%d" % number for number in range(60, 120)])
    for some in polls(first):
        got += some
        if len({record.value for record in got}) == 120:
            break
    assert len(got) == 120, "nothing twice"


def test_beside_librdkafka(servers: str, consume: Callable[..., Consumer]) -> None:
    topic, group = new_topic(servers, partitions=6), new_name("group")
    mine = consume(group_id=group)
    mine.subscribe(topic)
    theirs = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": group, "group.protocol": "consumer"}
    )
    try:
        theirs.subscribe([topic])

        def is_spread() -> bool:
            theirs.poll(0.05)
            owned = [*mine.assignment(), *((tp.topic, tp.partition) for tp in theirs.assignment())]
            return sorted(owned) == partitions_of(topic, 6) and len(mine.assignment()) == 3

        poll_until(is_spread, mine)
    finally:
        theirs.close()


def test_group_moves_over_from_the_classic_protocol(
    servers: str, consume: Callable[..., Consumer]
) -> None:
    """Online migration: a classic member and a new one in one group, each partition once."""
    topic, group = new_topic(servers, partitions=4), new_name("group")
    old = consume(group_id=group, group_protocol="classic", heartbeat_interval_ms=300)
    old.subscribe(topic)
    poll_until(lambda: is_shared(topic, 4, old), old)
    write(servers, topic, [b"%d" % number for number in range(40)])
    assert len(read(old, count=40)) == 40
    new = consume(group_id=group)
    new.subscribe(topic)
    poll_until(lambda: is_shared(topic, 4, old, new), old, new)
    old.close()
    poll_until(lambda: is_shared(topic, 4, new), new)
    write(servers, topic, [b"more"])
    assert read(new, count=1) == [b"more"], "what the classic member committed counts"


def test_pattern_and_static_membership(servers: str, consume: Callable[..., Consumer]) -> None:
    prefix, group = new_name("pattern"), new_name("group")
    with Admin(servers) as admin:
        admin.create_topic(f"{prefix}-1", 2, 1)
        consumer = consume(group_id=group, group_instance_id="one")
        consumer.subscribe(pattern=f"{prefix}-.*")
        poll_until(lambda: len(consumer.assignment()) == 2, consumer)
        admin.create_topic(f"{prefix}-2", 3, 1)
        poll_until(lambda: len(consumer.assignment()) == 5, consumer, seconds=60)
    consumer.close()
    again = consume(group_id=group, group_instance_id="one")
    again.subscribe(pattern=f"{prefix}-.*")
    poll_until(lambda: len(again.assignment()) == 5, again)


@pytest.mark.every_kafka
def test_old_broker(local_kafka_factory: Callable[..., LocalKafka]) -> None:
    with local_kafka_factory(version="2.4.1") as kafka:
        topic = new_topic(kafka.bootstrap_servers)
        options = {"group_id": "g", "group_protocol": "consumer"}
        with consumer_of(kafka.bootstrap_servers, **options) as consumer:
            consumer.subscribe(topic)
            with pytest.raises(UnsupportedVersion, match="use group_protocol='classic'"):
                for _ in polls(consumer):
                    pass
