"""Groups of every kind, and what they have committed; their members are librdkafka's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import Consumer

from kclient import Admin, MemberRef, OffsetAndMetadata, TopicPartition
from kclient.errors import BrokerError, PartialFailure
from kclient.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kclient.testing import LocalKafka

from ..exchange import Wire, new_name, until
from .peers import Config, read, write

Join = Callable[..., Consumer]


@pytest.fixture
def topic(admin: Admin, solo: LocalKafka) -> str:
    """A topic of two partitions, with 10 records in the first."""
    name = new_name()
    admin.create_topic(name, 2, 1)
    write(solo.bootstrap_servers, name, 10)
    return name


@pytest.fixture
def join(solo: LocalKafka) -> Iterator[Join]:
    """Makes consumers that are members of a group, with both partitions."""
    consumers: list[Consumer] = []

    def start(group: str, topic: str, config: Config | None = None) -> Consumer:
        settings = {
            "bootstrap.servers": solo.bootstrap_servers,
            "group.id": group,
            "client.id": "tester",
            **(config or {}),
        }
        consumer = Consumer(settings)
        consumers.append(consumer)
        consumer.subscribe([topic])
        until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2, "it joins")
        return consumer

    yield start
    for consumer in consumers:
        consumer.close()


def codes(failure: PartialFailure) -> dict[object, str]:
    assert all(isinstance(error, BrokerError) for error in failure.failures.values())
    return {item: error.name for item, error in failure.failures.items()}  # type: ignore[attr-defined]


def test_classic_and_consumer_groups_are_listed_and_described(
    admin: Admin, topic: str, join: Join
) -> None:
    classic, modern = new_name("classic"), new_name("modern")
    join(classic, topic, {"partition.assignment.strategy": "range"})
    join(modern, topic, {"group.protocol": "consumer"})
    listed = admin.list_groups()
    assert (listed[classic].type, listed[classic].state) == ("classic", "Stable")
    assert (listed[modern].type, listed[modern].protocol_type) == ("consumer", "consumer")
    assert classic not in admin.list_groups(types=["consumer"])
    assert modern in admin.list_groups(types=["consumer"])
    assert classic not in admin.list_groups(states=["Empty"])
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    described = admin.describe_groups([modern, classic])
    assert list(described) == [modern, classic]
    for group, kind, assignor in ((classic, "classic", "range"), (modern, "consumer", "uniform")):
        found = described[group]
        assert (found.type, found.state, found.assignor) == (kind, "Stable", assignor)
        (member,) = found.members
        assert member.client_id == "tester"
        assert member.host == "/127.0.0.1"
        assert member.subscription == (topic,)
        assert sorted(member.assignment) == both
    assert described[modern].members[0].target_assignment == tuple(both)


def test_a_group_that_does_not_exist(admin: Admin, topic: str, join: Join) -> None:
    real, missing = new_name(), new_name()
    join(real, topic)
    rights = admin.describe_groups([real], include_authorized_operations=True)[real]
    assert rights.authorized_operations is not None
    assert "describe" in rights.authorized_operations
    with pytest.raises(PartialFailure, match=f"group '{missing}' does not exist") as caught:
        admin.describe_groups([missing, real])
    assert list(caught.value.results) == [real]
    with pytest.raises(PartialFailure) as caught:
        admin.delete_groups([missing, real])
    assert codes(caught.value) == {missing: "GROUP_ID_NOT_FOUND", real: "NON_EMPTY_GROUP"}


def test_a_share_group_is_listed_and_described(admin: Admin, solo: LocalKafka, topic: str) -> None:
    group, member = new_name("share"), str(uuid4())
    joining = ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=0, subscribed_topic_names=[topic]
    )
    with Wire(solo.bootstrap_servers) as wire:
        until(lambda: not wire.ask(joining, ShareGroupHeartbeatResponse, 1).error_code, "it joins")
    assert admin.list_groups(types=["share"])[group].type == "share"
    found = admin.describe_groups([group])[group]
    assert (found.type, found.state) == ("share", "Stable")
    (described,) = found.members
    assert (described.member_id, described.subscription) == (member, (topic,))


def test_an_altered_offset_is_where_a_consumer_starts(
    admin: Admin, solo: LocalKafka, topic: str
) -> None:
    group = new_name()
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin.alter_group_offsets(group, {first: 7, second: OffsetAndMetadata(0, "by hand")})
    assert read(solo.bootstrap_servers, topic, {"group.id": group}, count=3) == [7, 8, 9]
    assert admin.list_group_offsets(group) == {
        first: OffsetAndMetadata(7),
        second: OffsetAndMetadata(0, "by hand"),
    }
    assert admin.list_group_offsets(group, [first]) == {first: OffsetAndMetadata(7)}
    assert admin.list_group_offsets(group, require_stable=True)[first].offset == 7
    assert admin.delete_group_offsets(group, [first]) == {first: None}
    assert list(admin.list_group_offsets(group)) == [second]
    reset = {"group.id": group, "auto.offset.reset": "earliest"}
    assert read(solo.bootstrap_servers, topic, reset, count=3) == [0, 1, 2]
    assert admin.delete_groups([group]) == {group: None}
    assert group not in admin.list_groups()


def test_offsets_of_many_groups_at_once(admin3: Admin) -> None:
    topic, names = new_name(), [new_name() for _ in range(12)]
    admin3.create_topic(topic, 1, 1)
    tp = TopicPartition(topic, 0)
    for number, group in enumerate(names):  # their coordinators are on all three brokers
        admin3.alter_group_offsets(group, {tp: number})
    found = admin3.list_group_offsets([*names, "nobody"])
    assert {group: offsets.get(tp) for group, offsets in found.items()} == {
        **{group: OffsetAndMetadata(number) for number, group in enumerate(names)},
        "nobody": None,
    }
    assert admin3.delete_groups(names) == dict.fromkeys(names)


def test_offsets_of_a_group_at_work_are_not_altered(admin: Admin, topic: str, join: Join) -> None:
    group, tp = new_name(), TopicPartition(topic, 0)
    committed = [confluent_kafka.TopicPartition(topic, 0, 5)]
    join(group, topic).commit(offsets=committed, asynchronous=False)
    with pytest.raises(PartialFailure, match="stop its consumers first") as caught:
        admin.alter_group_offsets(group, {tp: 1})
    assert codes(caught.value) == {tp: "UNKNOWN_MEMBER_ID"}
    with pytest.raises(PartialFailure, match="stop its consumers first") as caught:
        admin.delete_group_offsets(group, [tp])
    assert codes(caught.value) == {tp: "GROUP_SUBSCRIBED_TO_TOPIC"}


def test_members_are_removed(admin: Admin, topic: str, join: Join) -> None:
    dynamic, static = new_name(), new_name()
    join(dynamic, topic)
    join(static, topic, {"group.instance.id": "one"})
    (member,) = admin.describe_groups([dynamic])[dynamic].members
    (fixed,) = admin.describe_groups([static])[static].members
    assert fixed.instance_id == "one"
    gone = MemberRef(member.member_id)
    assert admin.remove_members(dynamic, [member.member_id], reason="test") == {gone: None}
    assert admin.remove_members(static, [MemberRef(instance_id="one")]) == {
        MemberRef(instance_id="one"): None
    }
    assert admin.describe_groups([static])[static].state == "Empty"
    with pytest.raises(PartialFailure) as caught:
        admin.remove_members(static, [MemberRef(instance_id="two"), "nobody"])
    assert set(codes(caught.value).values()) == {"UNKNOWN_MEMBER_ID"}


def test_all_members_are_removed(admin: Admin, topic: str, join: Join) -> None:
    group = new_name()
    join(group, topic, {"group.instance.id": "static"})
    assert len(admin.remove_members(group)) == 1
    assert admin.describe_groups([group])[group].members == ()
