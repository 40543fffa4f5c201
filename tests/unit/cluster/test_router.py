"""Requests find their broker, are tried again when that helps, and end with the deadline."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from kclient.cluster import ANY, CONTROLLER, Call, Coordinator, Leader, Metadata, Node, Router
from kclient.cluster.target import CoordinatorKind, Target
from kclient.config import ClientOptions, resolve
from kclient.deadline import Deadline
from kclient.errors import (
    BrokerError,
    KafkaError,
    KafkaTimeout,
    NotAuthorized,
    TopicNotFound,
    TransportError,
    UnsupportedVersion,
    broker_error,
)
from kclient.net.endpoint import Endpoint
from kclient.net.pool import Pool
from kclient.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kclient.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kclient.protocol.wire import Message
from kclient.testing import FakeCluster
from kclient.testing.fake import (
    SeenRequest,
    alter,
    answer,
    close_after,
    close_before,
    drop,
    error_code,
    move_leader,
)
from kclient.types import TopicPartition

QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "reconnect_backoff_ms": 1}
TP = TopicPartition("orders", 0)
GROUP = Coordinator(CoordinatorKind.GROUP, "billing")


@contextmanager
def router_of(cluster: FakeCluster, **options: Any) -> Iterator[Router]:
    given = {"bootstrap_servers": cluster.bootstrap_servers, **QUICK, **options}
    resolved = resolve(ClientOptions, given)
    pool = Pool(resolved)
    try:
        yield Router(resolved, pool, Metadata(resolved, pool))
    finally:
        pool.close()


@pytest.fixture(autouse=True)
def _little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("metadata", "router"):
        monkeypatch.setattr(f"kclient.cluster.{module}.TOPIC_GRACE", 0.1)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=3, topics={"orders": 6, "other": 1}) as running:
        yield running


@pytest.fixture
def router(cluster: FakeCluster) -> Iterator[Router]:
    with router_of(cluster) as made:
        yield made


def soon() -> Deadline:
    return Deadline(20)


def end_offsets(tps: Sequence[TopicPartition]) -> Call[Mapping[TopicPartition, int | KafkaError]]:
    """Ask for the ends of partitions: a request that only their leader answers."""

    def build(version: int) -> Message:
        topics: dict[str, ListOffsetsTopic] = {}
        for tp in tps:
            topic = topics.setdefault(tp.topic, ListOffsetsTopic(name=tp.topic))
            partition = ListOffsetsPartition(partition_index=tp.partition, timestamp=-1)
            topic.partitions.append(partition)
        return ListOffsetsRequest(replica_id=-1, topics=list(topics.values()))

    def read(message: Message) -> Mapping[TopicPartition, int | KafkaError]:
        assert isinstance(message, ListOffsetsResponse)
        return {
            TopicPartition(topic.name, each.partition_index): broker_error(
                each.error_code, f"the end of {topic.name}[{each.partition_index}]"
            )
            if each.error_code
            else each.offset
            for topic in message.topics
            for each in topic.partitions
        }

    return Call(ListOffsetsRequest, build, read)


def end_offset(tp: TopicPartition = TP) -> Call[int]:
    many = end_offsets([tp])

    def read(message: Message) -> int:
        result = many.read(message)[tp]
        if isinstance(result, KafkaError):
            raise result
        return result

    return Call(many.api, many.build, read)


def topic_names(message: Message) -> set[str | None]:
    assert isinstance(message, MetadataResponse)
    return {topic.name for topic in message.topics}


ALL_TOPICS = Call(MetadataRequest, lambda version: MetadataRequest(topics=None), topic_names)


def find(key: str) -> Call[int]:
    def build(version: int) -> Message:
        return FindCoordinatorRequest(key_type=0, coordinator_keys=[key])

    def read(message: Message) -> int:
        assert isinstance(message, FindCoordinatorResponse)
        return message.coordinators[0].node_id

    return Call(FindCoordinatorRequest, build, read)


def nodes(cluster: FakeCluster, api: str) -> list[int]:
    return [seen.node for seen in cluster.requests(api)]


def test_each_target_is_asked_at_its_place(cluster: FakeCluster, router: Router) -> None:
    assert router.ask(ANY, ALL_TOPICS, soon()) == {"orders", "other"}
    assert router.ask(Leader(TP), end_offset(), soon()) == 0
    assert nodes(cluster, "ListOffsets") == [cluster.leader(TP)]
    assert router.locate(GROUP, soon()).node == cluster.coordinator("billing")
    assert router.locate(Node(2), soon()).address == cluster.address(2)
    assert router.locate(CONTROLLER, soon()).node in (1, 2, 3)
    assert router.ask(Node(3), find("billing"), soon()) == cluster.coordinator("billing")
    assert nodes(cluster, "FindCoordinator")[-1] == 3


@pytest.mark.parametrize("fault", [close_before(), close_after(), error_code(6), error_code(7)])
def test_what_a_second_try_mends_is_not_noticed(
    cluster: FakeCluster, router: Router, fault: Any
) -> None:
    scripted = cluster.on("ListOffsets", fault, times=3)
    assert router.ask(Leader(TP), end_offset(), soon()) == 0
    assert len(scripted.hits) == 3


def test_a_leader_that_moved_is_followed(cluster: FakeCluster, router: Router) -> None:
    heir = cluster.leader(TP) % 3 + 1
    cluster.on("ListOffsets", move_leader(TP, heir))
    assert router.ask(Leader(TP), end_offset(), soon()) == 0
    assert nodes(cluster, "ListOffsets")[-1] == heir


def test_a_leader_that_died_is_replaced(cluster: FakeCluster, router: Router) -> None:
    assert router.ask(Leader(TP), end_offset(), soon()) == 0
    cluster.kill(cluster.leader(TP))
    assert router.ask(Leader(TP), end_offset(), soon()) == 0


def test_only_errors_that_say_so_have_the_metadata_asked_again(
    cluster: FakeCluster, router: Router
) -> None:
    router.ask(Leader(TP), end_offset(), soon())
    asked = len(cluster.requests("Metadata"))
    cluster.on("ListOffsets", error_code(7), times=2)  # REQUEST_TIMED_OUT: the leader is right
    router.ask(Leader(TP), end_offset(), soon())
    assert len(cluster.requests("Metadata")) == asked


def test_a_final_error_is_raised_at_once(cluster: FakeCluster, router: Router) -> None:
    fault = cluster.on("ListOffsets", error_code(29), times=None)
    with pytest.raises(NotAuthorized):
        router.ask(Leader(TP), end_offset(), Deadline(600))
    assert len(fault.hits) == 1


def test_the_end_of_the_time_tells_what_was_tried_and_the_last_error(
    cluster: FakeCluster, router: Router
) -> None:
    cluster.on("ListOffsets", error_code(6), times=None)
    with pytest.raises(KafkaTimeout) as got:
        router.ask(Leader(TP), end_offset(), Deadline(0.3))
    assert "ListOffsets to the leader of orders[0]: not done within 0.3 s (" in str(got.value)
    assert "NOT_LEADER_OR_FOLLOWER" in str(got.value)
    assert isinstance(got.value.cause, BrokerError)
    again = pickle.loads(pickle.dumps(got.value))
    assert (str(again), again.cause.code) == (str(got.value), 6)


def test_a_partition_that_does_not_exist(router: Router) -> None:
    missing = TopicPartition("orders", 9)
    with pytest.raises(KafkaTimeout, match=r"has no partition 9: it has 6, from 0") as got:
        router.ask(Leader(missing), end_offset(missing), Deadline(0.3))
    assert isinstance(got.value.cause, TopicNotFound)


def test_a_node_that_does_not_exist(router: Router) -> None:
    with pytest.raises(KafkaTimeout, match=r"broker 9 is not part of .* known are \[1, 2, 3\]"):
        router.ask(Node(9), find("x"), Deadline(0.3))


def test_an_api_that_the_broker_lacks_is_no_reason_to_try_again() -> None:
    with (
        FakeCluster(speaks={"ListOffsets": None}, topics={"orders": 1}) as cluster,
        router_of(cluster) as router,
        pytest.raises(UnsupportedVersion, match="does not have ListOffsets.*kclient speaks v0"),
    ):
        router.ask(Leader(TP), end_offset(), Deadline(600))


def test_anybody_else_is_asked_when_one_is_silent(cluster: FakeCluster, router: Router) -> None:
    router.locate(CONTROLLER, soon())
    fault = cluster.on("FindCoordinator", drop())
    assert router.ask(ANY, find("billing"), Deadline(4)) == cluster.coordinator("billing")
    assert len(fault.hits) == 1


# --- coordinators ---


def test_a_coordinator_is_remembered_until_an_error_says_it_moved(
    cluster: FakeCluster, router: Router
) -> None:
    first = router.locate(GROUP, soon())
    assert router.locate(GROUP, soon()) == first
    assert len(cluster.requests("FindCoordinator")) == 1
    router.forget(GROUP, broker_error(14, "loading"))  # it is the one, but not ready
    assert router.locate(GROUP, soon()) == first
    assert len(cluster.requests("FindCoordinator")) == 1
    cluster.move_coordinator("billing", first.node % 3 + 1)
    router.forget(GROUP, broker_error(16, "moved"))
    assert router.locate(GROUP, soon()).node == first.node % 3 + 1


@pytest.mark.parametrize("version", [0, 3, 6])
def test_many_coordinators_are_found_by_brokers_of_any_age(version: int) -> None:
    with (
        FakeCluster(brokers=3, speaks={"FindCoordinator": version}) as cluster,
        router_of(cluster) as router,
    ):
        keys = [f"group-{number}" for number in range(5)]
        targets: list[Target] = [Coordinator(CoordinatorKind.GROUP, key) for key in keys]
        assert router._locate_coordinators(targets, soon()) == {}
        assert [router.locate(target, soon()).node for target in targets] == [
            cluster.coordinator(key) for key in keys
        ]
        assert len(cluster.requests("FindCoordinator")) == (1 if version >= 4 else 5)


def test_a_broker_without_transactions_says_so() -> None:
    target = Coordinator(CoordinatorKind.TRANSACTION, "tx")
    with (
        FakeCluster(speaks={"FindCoordinator": 0}) as cluster,
        router_of(cluster) as router,
        pytest.raises(UnsupportedVersion, match="has no transaction coordinators"),
    ):
        router.locate(target, soon())


def test_a_coordinator_that_is_not_there_yet_is_waited_for(
    cluster: FakeCluster, router: Router
) -> None:
    cluster.on("FindCoordinator", error_code(15), times=3)
    assert router.ask(GROUP, find("billing"), soon()) == cluster.coordinator("billing")


@pytest.mark.parametrize("rows", ["none", "another", "nameless"])
def test_a_coordinator_left_out_of_an_answer_is_not_invented(
    cluster: FakeCluster, router: Router, rows: str
) -> None:
    def change(seen: SeenRequest, message: Message) -> Message:
        assert isinstance(message, FindCoordinatorResponse)
        if rows == "none":
            message.coordinators = []
        elif rows == "another":
            message.coordinators[0].key = "another"
        else:
            message.coordinators[0].host = ""
        return message

    cluster.on("FindCoordinator", alter(change))
    with pytest.raises(TransportError):
        router.locate(GROUP, soon())
    assert router.locate(GROUP, soon()).node == cluster.coordinator("billing")


# --- many at once ---


def gather(
    router: Router, tps: Sequence[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, int | KafkaError]:
    target: Callable[[TopicPartition], Target] = Leader
    return router.gather(tps, target, end_offsets, deadline)


ALL = [TopicPartition("orders", number) for number in range(6)]


def test_items_of_one_broker_go_in_one_request(cluster: FakeCluster, router: Router) -> None:
    assert gather(router, ALL, soon()) == dict.fromkeys(ALL, 0)
    asked = nodes(cluster, "ListOffsets")
    assert sorted(asked) == sorted({cluster.leader(tp) for tp in ALL})


def test_only_what_failed_is_asked_again(cluster: FakeCluster, router: Router) -> None:
    cluster.on("ListOffsets", error_code(6, partition=TP), node=cluster.leader(TP))
    assert gather(router, ALL, soon()) == dict.fromkeys(ALL, 0)
    last = cluster.requests("ListOffsets")[-1].message
    assert isinstance(last, ListOffsetsRequest)
    assert [each.partition_index for each in last.topics[0].partitions] == [0]


def test_one_bad_item_does_not_spoil_the_others(router: Router) -> None:
    bad, other = TopicPartition("nowhere", 0), TopicPartition("other", 0)
    results = gather(router, [bad, *ALL, other], soon())
    assert isinstance(results.pop(bad), TopicNotFound)
    assert results == dict.fromkeys([*ALL, other], 0)


def test_an_item_the_broker_left_out_is_asked_again(cluster: FakeCluster, router: Router) -> None:
    cluster.on("ListOffsets", answer(lambda seen: ListOffsetsResponse()))
    assert gather(router, ALL, soon()) == dict.fromkeys(ALL, 0)


def test_what_is_not_done_in_time_keeps_its_last_error(
    cluster: FakeCluster, router: Router
) -> None:
    cluster.on("ListOffsets", error_code(6, partition=TP), times=None)
    results = gather(router, ALL, Deadline(1))
    failed = results.pop(TP)
    assert isinstance(failed, BrokerError)
    assert failed.code == 6
    assert results == dict.fromkeys(ALL[1:], 0)


def test_one_dead_broker_leaves_the_answers_of_the_others(
    cluster: FakeCluster, router: Router
) -> None:
    endpoints = [router.locate(Node(node), soon()) for node in (1, 2, 3)]
    cluster.kill(2)
    results = router.ask_each(dict.fromkeys(endpoints, find("billing")), soon())
    assert [type(results[each]) for each in endpoints] == [int, TransportError, int]


def test_the_same_broker_under_two_addresses_does_not_lock_itself_out(
    cluster: FakeCluster, router: Router
) -> None:
    here = router.locate(Node(1), soon())
    calls = {here: find("a"), Endpoint(1, here.host, here.port, "rack"): find("b")}
    results = list(router.ask_each(calls, Deadline(600)).values())
    assert sorted(type(each).__name__ for each in results) == ["TransportError", "int"]
