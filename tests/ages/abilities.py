"""What a client wants of a broker, one function each: it does the thing and checks it.

Nobody tells the client how old the broker is. What a broker is too old for has to be told by
UnsupportedVersion, at once, and not by silence or a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kclient import (
    Admin,
    ConfigResource,
    Consumer,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    ProducerRecord,
    TimestampType,
    TopicPartition,
)
from kclient.config import ConsumerKeywords

from .age import Age, new_name, now_ms, plain, take


class Ability(NamedTuple):
    """Something that brokers can do since a version; ``title`` heads its column."""

    title: str
    since: tuple[int, ...]
    show: Callable[[Age], None]


def codec(name: str | None) -> Callable[[Age], None]:
    """Records with keys, nulls and enough bytes to be compressed come back as they were."""

    def show(age: Age) -> None:
        sent = [
            *plain(),
            ProducerRecord("", None, b"tombstone", timestamp_ms=now_ms()),
            ProducerRecord("", b"x" * 5_000, timestamp_ms=now_ms()),
        ]
        got = age.read(age.write(sent, name), len(sent))
        assert [(one.key, one.value) for one in got] == [(one.key, one.value) for one in sent]
        assert [one.offset for one in got] == list(range(len(sent)))
        times = [-1 if age.magic == 0 else one.timestamp_ms for one in sent]
        assert [one.timestamp for one in got] == times
        kind = TimestampType.NONE if age.magic == 0 else TimestampType.CREATE_TIME
        assert {one.timestamp_type for one in got} == {kind}

    return show


def headers(age: Age) -> None:
    """Headers come back, a null one too."""
    sent = [("h", b"1"), ("h", b"2"), ("null", None)]
    (got,) = age.read(age.write([ProducerRecord("", b"value", headers=sent)]), 1)
    assert list(got.headers) == sent


def by_timestamp(age: Age) -> None:
    """A consumer begins at a time."""
    start = now_ms() - 60_000
    tp = age.write(plain(5, start))
    with Consumer(age.servers) as consumer:
        consumer.assign([tp])
        found = consumer.offsets_for_times({tp: start + 1500})[tp]
        assert found is not None
        assert (found.offset, found.timestamp) == (2, start + 2000)
        assert consumer.offsets_for_times({tp: start + 10_000}) == {tp: None}
        consumer.seek_to_timestamp(start + 1500)
        assert [one.offset for one in take(consumer, 3)] == [2, 3, 4]


def commits(age: Age) -> None:
    """A consumer that has partitions of its own commits, and the next goes on from there."""
    tp, group = age.write(plain()), new_name()
    with Consumer(age.servers, group_id=group, enable_auto_commit=False) as consumer:
        consumer.assign([tp])
        assert consumer.committed([tp]) == {tp: None}
        consumer.commit({tp: OffsetAndMetadata(3, "note")})
    with Consumer(age.servers, group_id=group) as consumer:
        consumer.assign([tp])
        found = consumer.committed([tp])[tp]
        assert found is not None
        assert (found.offset, found.metadata) == (3, "note")
        assert [one.offset for one in take(consumer, 2)] == [3, 4]


def groups(protocol: str) -> Callable[[Age], None]:
    """A member of a group commits, and the one that comes after it goes on from there."""

    def show(age: Age) -> None:
        tp, group = age.write(plain()), new_name()
        options: ConsumerKeywords = {
            "group_id": group,
            "group_protocol": protocol,
            "auto_offset_reset": "earliest",
        }
        with (
            Consumer(age.servers, **options) as consumer,
            Admin(age.servers) as admin,
        ):
            consumer.subscribe([tp.topic])
            assert [one.offset for one in take(consumer, 5)] == [0, 1, 2, 3, 4]
            assert consumer.assignment() == {tp}
            assert group in admin.list_groups()
            described = admin.describe_groups([group])[group]
            assert (described.type, described.state) == (protocol, "Stable")
            assert len(described.members) == 1
            consumer.seek(tp, 2)  # leaving commits where it is
        with Consumer(age.servers, **options) as consumer:
            consumer.subscribe([tp.topic])
            assert [one.offset for one in take(consumer, 3)] == [2, 3, 4]

    return show


def idempotence(age: Age) -> None:
    """The producer has an id, so that what is sent twice is written once."""
    with Producer(age.servers, enable_idempotence=True) as producer:
        producer.send(new_name(), b"value")


def transactions(age: Age) -> None:
    """What was aborted is not seen; offsets are committed with the records."""
    topic, group = new_name(), new_name()
    tp = TopicPartition(topic, 0)
    with Producer(age.servers, transactional_id=new_name()) as producer:
        with producer.transaction():
            producer.send(topic, b"first")
        producer.begin_transaction()
        producer.send(topic, b"aborted")
        producer.abort_transaction()
        with (
            Consumer(
                age.servers,
                group_id=group,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                enable_auto_commit=False,
            ) as consumer,
            producer.transaction(consumer),
        ):
            consumer.assign([tp])
            assert [one.value for one in take(consumer, 1)] == [b"first"]
            producer.send(topic, b"last")
    with Consumer(
        age.servers,
        group_id=group,
        isolation_level="read_committed",
        auto_offset_reset="none",
    ) as consumer:
        consumer.assign([tp])
        assert [one.value for one in take(consumer, 1)] == [b"last"]


def topics(age: Age) -> None:
    """Topics are made, described and deleted."""
    name = new_name()
    with Admin(age.servers) as admin:
        admin.create_topics([NewTopic(name, 3, 1, configs={"retention.ms": 3_600_000})])
        assert len(admin.describe_topics([name])[name].partitions) == 3
        assert name in admin.list_topics()
        admin.delete_topics([name])
        assert name not in admin.list_topics()


def configs(age: Age) -> None:
    """A topic's config is changed and read."""
    tp = age.write(plain(1))
    resource = ConfigResource("topic", tp.topic)
    with Admin(age.servers) as admin:
        admin.alter_configs({resource: {"retention.ms": 3_600_000}})
        assert "retention.ms" in admin.describe_configs([resource])[resource]


def delete_records(age: Age) -> None:
    """The oldest records go."""
    tp = age.write(plain())
    with Admin(age.servers) as admin:
        assert admin.delete_records({tp: 2}) == {tp: 2}
        assert admin.list_offsets({tp: "earliest"})[tp].offset == 2
    assert [one.offset for one in age.read(tp, 3)] == [2, 3, 4]


def partitions(age: Age) -> None:
    """A topic gets more partitions."""
    tp = age.write(plain(1))
    with Admin(age.servers) as admin:
        assert admin.create_partitions({tp.topic: 3}) == {tp.topic: None}


def reassignments(age: Age) -> None:
    """Replicas are moved: here nothing is to be moved, and the broker says so."""
    with Admin(age.servers) as admin:
        assert admin.list_partition_reassignments() == {}


def quotas(age: Age) -> None:
    """Quotas are read."""
    with Admin(age.servers) as admin:
        assert admin.describe_client_quotas() == {}


ABILITIES = (
    Ability("records", (0, 8), codec(None)),
    Ability("gzip", (0, 8), codec("gzip")),
    Ability("snappy", (0, 8), codec("snappy")),
    Ability("lz4", (0, 8, 2), codec("lz4")),
    Ability("zstd", (2, 1), codec("zstd")),
    Ability("headers", (0, 11), headers),
    Ability("by timestamp", (0, 10, 1), by_timestamp),
    Ability("commits", (0, 8, 2), commits),
    Ability("groups", (0, 9), groups("classic")),
    Ability("consumer protocol", (4, 0), groups("consumer")),
    Ability("idempotence", (0, 11), idempotence),
    Ability("transactions", (0, 11), transactions),
    Ability("make topics", (0, 10, 1), topics),
    Ability("configs", (0, 11), configs),
    Ability("delete records", (0, 11), delete_records),
    Ability("add partitions", (1, 0), partitions),
    Ability("reassignments", (2, 4), reassignments),
    Ability("quotas", (2, 6), quotas),
)
