"""Admin on brokers of other ages: what they can do works, what they cannot is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from kclient import (
    AclBinding,
    AclFilter,
    Admin,
    ConfigChange,
    ConfigResource,
    NewTopic,
    OffsetAndMetadata,
    Replica,
    TopicPartition,
)
from kclient.errors import PartialFailure, TopicExists, TopicNotFound, UnsupportedVersion
from kclient.testing import LocalKafka
from kclient.testing.releases import parse_version

from ..exchange import new_name, until

pytestmark = pytest.mark.every_kafka

AUTHORIZERS = {
    "1.1.1": "kafka.security.auth.SimpleAclAuthorizer",
    "2.8.2": "kafka.security.authorizer.AclAuthorizer",
    "3.9.1": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}


class Old(NamedTuple):
    """An Admin, and the version of its broker."""

    admin: Admin
    number: tuple[int, ...]


@pytest.fixture(scope="module", params=["0.10.2.2", "1.1.1", "2.8.2", "3.9.1"])
def old(
    request: pytest.FixtureRequest, local_kafka_factory: Callable[..., LocalKafka]
) -> Iterator[Old]:
    properties: dict[str, str] = {}
    if request.param in AUTHORIZERS:
        properties = {
            "authorizer.class.name": AUTHORIZERS[request.param],
            "super.users": "User:ANONYMOUS",
        }
    kafka = local_kafka_factory(version=request.param, data_dirs=2, properties=properties)
    with Admin(kafka.bootstrap_servers) as admin:
        yield Old(admin, parse_version(request.param))
    kafka.close(keep_logs=request.session.testsfailed > 0)


@pytest.fixture
def topic(old: Old) -> str:
    name = new_name()
    old.admin.create_topic(name, 2, 1)
    return name


def needs(old: Old, version: str) -> None:
    if old.number < parse_version(version):
        pytest.skip(f"came with {version}")


def test_topics_live_and_die(old: Old) -> None:
    admin, name, other = old.admin, new_name(), new_name()
    if old.number >= (0, 10, 2):
        admin.create_topic(name, 3, 1, validate_only=True)
    made = admin.create_topics(
        [NewTopic(name, 3, 1, configs={"retention.ms": 5000}), NewTopic(other, assignments=[[1]])]
    )
    assert list(made) == [name, other]
    assert {name, other} <= set(admin.list_topics())
    described = admin.describe_topics([name, other])
    assert [len(described[each].partitions) for each in (name, other)] == [3, 1]
    until(
        lambda: admin.describe_topics([other])[other].partitions[0].leader == 1, "it has a leader"
    )
    assert (described[name].topic_id is not None) == (old.number >= (2, 8))
    with pytest.raises(TopicExists):
        admin.create_topic(name, 3, 1)
    assert admin.delete_topics([name, other]) == {name: None, other: None}
    assert not {name, other} & set(admin.list_topics())
    with pytest.raises(PartialFailure) as caught:
        admin.describe_topics([name])
    assert isinstance(caught.value.failures[name], TopicNotFound)
    with pytest.raises(PartialFailure):
        admin.list_offsets([TopicPartition(name, 0)])
    # Asking an old broker for a topic makes it, where brokers make topics that are asked for.
    assert name not in admin.list_topics()


def test_defaults_of_new_topics(old: Old) -> None:
    name = new_name()
    if old.number >= (2, 4):
        assert old.admin.create_topic(name).num_partitions == 1
    else:
        with pytest.raises(UnsupportedVersion, match="give both, for Kafka has one since 2.4"):
            old.admin.create_topic(name)


def test_the_cluster(old: Old) -> None:
    found = old.admin.describe_cluster()
    assert list(found.brokers) == [1]
    assert found.controller == 1
    assert found.cluster_id
    if old.number < (4,):
        with pytest.raises(UnsupportedVersion):
            old.admin.describe_cluster(include_fenced_brokers=True)


def test_offsets(old: Old, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    assert old.admin.list_offsets([tp])[tp].offset == 0
    assert old.admin.list_offsets({tp: "earliest"})[tp].offset == 0
    assert old.admin.list_offsets({tp: 1})[tp].offset is None
    if old.number >= (3,):
        assert old.admin.list_offsets({tp: "max_timestamp"})[tp].offset is None
    else:
        with pytest.raises(UnsupportedVersion, match="by max_timestamp: Kafka can since 3.0"):
            old.admin.list_offsets({tp: "max_timestamp"})


def test_groups(old: Old, topic: str) -> None:
    admin, groups = old.admin, [new_name(), new_name()]
    tp = TopicPartition(topic, 1)
    for group in groups:
        admin.alter_group_offsets(group, {tp: OffsetAndMetadata(3, "mine")})
        found = admin.list_group_offsets(group)[tp]
        assert (found.offset, found.metadata) == (3, "mine")
    many = admin.list_group_offsets(groups)
    assert {group: offsets[tp].offset for group, offsets in many.items()} == dict.fromkeys(
        groups, 3
    )
    assert set(groups) <= set(admin.list_groups())
    assert admin.describe_groups(groups)[groups[0]].state == "Empty"
    with pytest.raises(PartialFailure, match="does not exist"):
        admin.describe_groups(["nobody"])
    if old.number < (2, 6):
        with pytest.raises(UnsupportedVersion, match="by state: Kafka can since 2.6"):
            admin.list_groups(states=["Empty"])
    if old.number >= (2, 4):
        assert admin.delete_group_offsets(groups[0], [tp]) == {tp: None}
    else:
        with pytest.raises(UnsupportedVersion, match="OffsetDelete.*since 2.4.0"):
            admin.delete_group_offsets(groups[0], [tp])
    if old.number >= (1, 1):
        assert admin.delete_groups([groups[1]]) == {groups[1]: None}
    else:
        with pytest.raises(UnsupportedVersion, match="DeleteGroups.*since 1.1.0"):
            admin.delete_groups([groups[1]])


def test_configs_change_one_by_one(old: Old) -> None:
    needs(old, "0.11")
    admin, name = old.admin, new_name()
    admin.create_topic(name, 1, 1, configs={"retention.ms": 1000, "segment.ms": 60_000})
    resource = ConfigResource("topic", name)
    changes = {"retention.ms": None, "max.message.bytes": 2000}
    assert admin.alter_configs({resource: changes}) == {resource: None}

    def values() -> list[str | None]:
        found = admin.describe_configs([resource])[resource]
        return [found[each].value for each in ("retention.ms", "segment.ms", "max.message.bytes")]

    until(lambda: values() == ["604800000", "60000", "2000"], "one stayed as it was")
    found = admin.describe_configs([resource])[resource]
    assert found["segment.ms"].source == "dynamic_topic"
    assert found["retention.ms"].is_default
    if old.number < (2, 3):
        with pytest.raises(UnsupportedVersion, match="cannot append.*since 2.3"):
            admin.alter_configs({resource: {"cleanup.policy": ConfigChange("append", "compact")}})


def test_configs_came_with_0_11(old: Old, topic: str) -> None:
    if old.number < (0, 11):
        resource = ConfigResource("topic", topic)
        with pytest.raises(UnsupportedVersion, match="DescribeConfigs: Kafka has it since 0.11.0"):
            old.admin.describe_configs([resource])
        with pytest.raises(UnsupportedVersion, match="since 0.11.0"):
            old.admin.alter_configs({resource: {"retention.ms": 1}})
        with pytest.raises(UnsupportedVersion, match="DeleteRecords: Kafka has it since 0.11.0"):
            old.admin.delete_records({TopicPartition(topic, 0): 0})


def test_records_partitions_and_folders(old: Old, topic: str) -> None:
    needs(old, "1.0")
    tp = TopicPartition(topic, 0)
    until(lambda: old.admin.list_offsets([tp])[tp].offset == 0, "it has a leader")
    assert old.admin.delete_records({tp: "latest"}) == {tp: 0}
    assert old.admin.create_partitions({topic: 4}) == {topic: None}
    until(
        lambda: len(old.admin.describe_topics([topic])[topic].partitions) == 4, "the broker knows"
    )
    folders = old.admin.describe_log_dirs()[1]
    (here,) = (path for path, each in folders.items() if tp in each.replicas)
    (there,) = set(folders) - {here}
    old.admin.alter_replica_log_dirs({Replica(topic, 0, 1): there})
    until(
        lambda: tp not in old.admin.describe_log_dirs([1], partitions=[tp])[1][here].replicas,
        "it has moved",
    )


def test_acls(old: Old) -> None:
    needs(old, "0.11")
    acl = AclBinding("topic", new_name(), "User:alice", "read")
    assert old.admin.create_acls([acl]) == {acl: None}
    mine = AclFilter(principal="User:alice")
    until(lambda: old.admin.describe_acls(mine) == [acl], "the broker knows")
    assert old.admin.delete_acls([mine]) == {mine: [acl]}
    prefixed = AclBinding("topic", "t", "User:alice", "read", pattern_type="prefixed")
    if old.number < (2,):
        with pytest.raises(UnsupportedVersion, match="prefixed patterns in ACLs.*since 2.0"):
            old.admin.create_acls([prefixed])


def test_what_is_too_new_says_since_when(old: Old, topic: str) -> None:
    admin, tp = old.admin, TopicPartition(topic, 0)
    calls: dict[str, Callable[[], object]] = {
        "2.2.0": lambda: admin.elect_leaders([tp]),
        "2.4.0": lambda: admin.list_partition_reassignments(),
        "2.6.0": lambda: admin.describe_client_quotas(),
        "2.7.0": lambda: admin.describe_scram_credentials(),
        "2.8.0": lambda: admin.describe_producers([tp]),
        "3.0.0": lambda: admin.list_transactions(),
        "3.3.0": lambda: admin.describe_quorum(),
    }
    for since, call in calls.items():
        if old.number >= parse_version(since):
            call()
        else:
            with pytest.raises(UnsupportedVersion, match=f"Kafka has it since {since}"):
                call()
