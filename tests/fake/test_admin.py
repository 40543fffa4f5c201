"""Admin where things move and fail: who is asked, how often, and what the user is told."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kclient import Admin, ConfigResource, NewTopic, TopicPartition
from kclient.errors import (
    BrokerError,
    ClientClosedError,
    KafkaTimeout,
    PartialFailure,
    TopicExists,
    TopicNotFound,
    TransportError,
    UnsupportedVersion,
)
from kclient.protocol import Message
from kclient.testing.fake import FakeCluster
from kclient.testing.fake.faults import alter, close_before, error_code, move_coordinator
from kclient.testing.fake.journal import SeenRequest

CONTRACT = """
    create_topics create_topic delete_topics list_topics describe_topics create_partitions
    delete_records list_offsets elect_leaders alter_partition_reassignments
    list_partition_reassignments describe_configs alter_configs list_groups describe_groups
    delete_groups list_group_offsets alter_group_offsets delete_group_offsets remove_members
    describe_acls create_acls delete_acls describe_scram_credentials alter_scram_credentials
    create_delegation_token renew_delegation_token expire_delegation_token
    describe_delegation_tokens describe_cluster describe_log_dirs alter_replica_log_dirs
    describe_features update_features describe_quorum describe_client_quotas alter_client_quotas
    list_transactions describe_transactions describe_producers abort_transaction fence_producers
    api_versions
"""
NOT_CONTROLLER, QUOTA_EXCEEDED, NOT_LEADER = 41, 89, 6


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=3, topics={"orders": 30}) as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: FakeCluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap_servers, retry_backoff_ms=1) as admin:
        yield admin


def counts(cluster: FakeCluster, *apis: str) -> list[int]:
    """How many requests of each API there were, without the probe of each new connection."""
    return [
        sum(1 for seen in cluster.requests(api) if (api, seen.version) != ("Metadata", 0))
        for api in apis
    ]


# --- few requests ---


def test_a_thousand_topics_in_a_request_each(cluster: FakeCluster, admin: Admin) -> None:
    names = [f"topic-{number}" for number in range(1000)]
    assert list(admin.create_topics([NewTopic(name, 1, 1) for name in names])) == names
    cluster.forget_requests()
    assert len(admin.describe_topics(names)) == 1000
    assert set(names) <= set(admin.list_topics())
    assert len(admin.delete_topics(names)) == 1000
    assert counts(cluster, "CreateTopics", "DeleteTopics", "Metadata") == [0, 1, 2]


def test_partitions_are_asked_for_at_their_leaders(cluster: FakeCluster, admin: Admin) -> None:
    tps = [TopicPartition("orders", number) for number in range(30)]
    found = admin.list_offsets(tps)
    assert {each.offset for each in found.values()} == {0}
    assert counts(cluster, "ListOffsets") == [3]
    assert {seen.node for seen in cluster.requests("ListOffsets")} == {1, 2, 3}
    assert counts(cluster, "Metadata")[0] <= 2


def test_coordinators_are_found_together(cluster: FakeCluster, admin: Admin) -> None:
    groups = [f"group-{number}" for number in range(50)]
    assert admin.list_group_offsets(groups) == {group: {} for group in groups}
    assert counts(cluster, "FindCoordinator") == [1]
    assert counts(cluster, "OffsetFetch")[0] <= 3


def test_old_brokers_are_asked_one_by_one() -> None:
    with (
        FakeCluster(topics={"orders": 1}, speaks={"OffsetFetch": 7, "FindCoordinator": 3}) as old,
        Admin(old.bootstrap_servers) as admin,
    ):
        assert admin.list_group_offsets(["a", "b", "c"]) == {"a": {}, "b": {}, "c": {}}
        assert counts(old, "OffsetFetch", "FindCoordinator") == [3, 3]


# --- what moves ---


def test_a_controller_that_moved_is_found(cluster: FakeCluster, admin: Admin) -> None:
    admin.describe_cluster()
    cluster.on("CreateTopics", error_code(NOT_CONTROLLER), times=2)
    asked = counts(cluster, "Metadata")[0]
    assert admin.create_topic("new", 1, 1).name == "new"
    assert counts(cluster, "CreateTopics") == [3]
    assert counts(cluster, "Metadata")[0] >= asked + 2


def test_only_what_is_refused_for_now_is_tried_again(cluster: FakeCluster, admin: Admin) -> None:
    def refuse(seen: SeenRequest, answer: Message) -> Message:
        rows: list[Any] = answer.topics  # type: ignore[attr-defined]
        for row in rows:
            row.error_code = {"slow": QUOTA_EXCEEDED, "orders": 36}.get(row.name, 0)
        return answer

    cluster.on("CreateTopics", alter(refuse))
    with pytest.raises(PartialFailure) as caught:
        admin.create_topics([NewTopic(name, 1, 1) for name in ("quick", "slow", "orders")])
    assert list(caught.value.failures) == ["slow", "orders"]
    # The fake had made it all the same: trying again tells.
    assert isinstance(caught.value.failures["slow"], TopicExists)
    sent: Any = [seen.message for seen in cluster.requests("CreateTopics")]
    assert [[topic.name for topic in each.topics] for each in sent] == [
        ["quick", "slow", "orders"],
        ["slow"],
    ]


def test_a_leader_that_moved_is_found(cluster: FakeCluster, admin: Admin) -> None:
    tp = TopicPartition("orders", 0)
    admin.list_offsets([tp])
    (new,) = {1, 2} - {cluster.leader(tp)} if cluster.leader(tp) in (1, 2) else {1}
    cluster.move_leader(tp, new)
    assert admin.list_offsets([tp])[tp].offset == 0
    assert cluster.requests("ListOffsets")[-1].node == new


def test_a_coordinator_that_moved_is_found(cluster: FakeCluster, admin: Admin) -> None:
    tp, there = TopicPartition("orders", 0), cluster.coordinator("g")
    admin.alter_group_offsets("g", {tp: 5})
    cluster.on("OffsetFetch", move_coordinator("g", there % 3 + 1))
    assert admin.list_group_offsets("g")[tp].offset == 5
    assert cluster.requests("OffsetFetch")[-1].node == there % 3 + 1


def test_a_connection_that_breaks_is_made_anew(cluster: FakeCluster, admin: Admin) -> None:
    cluster.on("ListGroups", close_before(), node=2)
    assert admin.list_groups() == {}
    assert counts(cluster, "ListGroups") == [4]


# --- what is told ---


def test_a_topic_that_is_not_there_is_told_soon(cluster: FakeCluster, admin: Admin) -> None:
    with pytest.raises(PartialFailure) as caught:
        admin.delete_topics(["nowhere"], timeout=30)
    assert isinstance(caught.value.failures["nowhere"], TopicNotFound)
    assert counts(cluster, "DeleteTopics") == [1]
    good, bad = TopicPartition("orders", 0), TopicPartition("nowhere", 0)
    with pytest.raises(PartialFailure) as caught:
        admin.list_offsets([good, bad], timeout=30)
    assert caught.value.results[good].offset == 0
    assert isinstance(caught.value.failures[bad], TopicNotFound)


def test_a_broker_that_is_not_there_is_told_soon(admin: Admin) -> None:
    here, gone = ConfigResource("broker", "1"), ConfigResource("broker", "9")
    with pytest.raises(PartialFailure) as caught:
        admin.describe_configs([here, gone], timeout=30)
    assert list(caught.value.results) == [here]
    assert "broker 9 is not part of the cluster" in str(caught.value.failures[gone])
    with pytest.raises(TransportError, match=r"known are \[1, 2, 3\]"):
        admin.describe_configs([gone], timeout=30)


def test_time_is_limited(cluster: FakeCluster, admin: Admin) -> None:
    admin.describe_cluster()
    cluster.on("CreateTopics", error_code(NOT_CONTROLLER), times=None)
    with pytest.raises(KafkaTimeout, match="not done within 0.3 s.*NOT_CONTROLLER") as caught:
        admin.create_topic("new", 1, 1, timeout=0.3)
    assert isinstance(caught.value.cause, BrokerError)
    for node in (1, 2, 3):
        cluster.pause(node)
    with pytest.raises(KafkaTimeout):
        admin.list_topics(timeout=0.3)


def test_a_broker_that_cannot_says_since_when() -> None:
    speaks = {"DeleteGroups": None, "CreatePartitions": None}
    with FakeCluster(speaks=speaks) as old, Admin(old.bootstrap_servers) as admin:
        with pytest.raises(UnsupportedVersion, match="DeleteGroups: Kafka has it since 1.1.0"):
            admin.delete_groups(["g"])
        with pytest.raises(UnsupportedVersion, match="CreatePartitions: Kafka has it since 1.0.0"):
            admin.create_partitions({"t": 2})


# --- the end ---


def operations(admin: Admin) -> dict[str, Callable[..., object]]:
    return {
        name: method
        for name, method in inspect.getmembers(admin, inspect.ismethod)
        if not name.startswith("_") and name not in ("close", "from_properties")
    }


def test_every_operation_has_a_timeout_and_a_docstring(admin: Admin) -> None:
    found = operations(admin)
    assert set(found) == set(CONTRACT.split())
    for name, method in found.items():
        timeout = inspect.signature(method).parameters["timeout"]
        assert timeout.default is None, name
        assert timeout.kind is inspect.Parameter.KEYWORD_ONLY, name
        assert method.__doc__, name


def test_after_close_every_call_says_so(cluster: FakeCluster) -> None:
    admin = Admin(cluster.bootstrap_servers)
    admin.close()
    admin.close()
    arguments: dict[str, tuple[Any, ...]] = {
        "create_topic": ("t",),
        "abort_transaction": (TopicPartition("t", 0), None),
        "alter_group_offsets": ("g", {}),
        "delete_group_offsets": ("g", ()),
        "list_group_offsets": ("g",),
        "remove_members": ("g",),
        "renew_delegation_token": (b"",),
        "expire_delegation_token": (b"",),
    }
    for name, method in operations(admin).items():
        needed = [
            each
            for each in inspect.signature(method).parameters.values()
            if each.default is inspect.Parameter.empty
        ]
        given = arguments.get(name, ({},) if needed else ())
        with pytest.raises(ClientClosedError):
            method(*given)


def test_options_by_their_dotted_names(cluster: FakeCluster) -> None:
    properties = {"bootstrap.servers": cluster.bootstrap_servers, "client.id": "operator"}
    with Admin.from_properties(properties, request_timeout_ms=5000) as admin:
        assert "orders" in admin.list_topics()
        assert repr(admin) == f"<Admin of {cluster.bootstrap_servers}>"
    assert {seen.client_id for seen in cluster.requests("Metadata")} == {"operator"}
