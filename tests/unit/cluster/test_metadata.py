"""The metadata cache against a cluster that moves, lags, dies and returns elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kclient.cluster.metadata import Metadata, metadata_request
from kclient.config import ClientOptions, resolve
from kclient.deadline import Deadline
from kclient.errors import (
    BrokerError,
    InvalidRequest,
    KafkaError,
    KafkaTimeout,
    ProtocolError,
    TopicNotFound,
    TransportError,
)
from kclient.net.pool import Pool
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kclient.protocol.negotiate import KAFKA_0_8
from kclient.protocol.wire import Message
from kclient.testing import FakeCluster
from kclient.testing.fake import SeenRequest, alter, drop, error_code
from kclient.types import TopicPartition

QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "reconnect_backoff_ms": 1}
REBOOTSTRAP_REQUIRED = 129


@contextmanager
def metadata_of(servers: str, **options: Any) -> Iterator[Metadata]:
    resolved = resolve(ClientOptions, {"bootstrap_servers": servers, **QUICK, **options})
    pool = Pool(resolved)
    try:
        yield Metadata(resolved, pool)
    finally:
        pool.close()


@pytest.fixture(autouse=True)
def _little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kclient.cluster.metadata.TOPIC_GRACE", 0.1)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=3, topics={"orders": 3, "other": 1}) as running:
        yield running


@pytest.fixture
def metadata(cluster: FakeCluster) -> Iterator[Metadata]:
    with metadata_of(cluster.bootstrap_servers) as made:
        yield made


def soon() -> Deadline:
    return Deadline(20)


def asked_topics(cluster: FakeCluster) -> list[list[str | None]]:
    """The topics of each question so far, without those that probe for old brokers."""
    requests = [seen.message for seen in cluster.requests("Metadata")]
    found = [
        sorted(str(each.name) for each in request.topics or ())
        for request in requests
        if isinstance(request, MetadataRequest)
    ]
    return [list(names) for names in found if names != ["~"]]


def test_brokers_topics_and_leaders(cluster: FakeCluster, metadata: Metadata) -> None:
    assert set(metadata.brokers(soon())) == {1, 2, 3}
    assert set(metadata.topic("orders", soon()).partitions) == {0, 1, 2}
    for number in range(3):
        leader = metadata.leader("orders", number)
        assert leader is not None
        assert leader.node == cluster.leader(TopicPartition("orders", number))
    assert metadata.leader("orders", 3) is None
    assert metadata.leader("unknown", 0) is None


def test_what_is_known_is_not_asked_again(cluster: FakeCluster, metadata: Metadata) -> None:
    for _ in range(3):
        metadata.brokers(soon())
        metadata.topic("orders", soon())
        metadata.topic("other", soon())
    assert asked_topics(cluster) == [[], ["orders"], ["other"]]


def test_a_stale_view_is_refreshed_once_with_all_topics_in_use(
    cluster: FakeCluster, metadata: Metadata
) -> None:
    for name in ("orders", "other"):
        metadata.topic(name, soon())
    metadata.mark_stale()
    metadata.topic("orders", soon())
    metadata.topic("other", soon())
    metadata.brokers(soon())
    assert asked_topics(cluster)[2:] == [["orders", "other"]]


def test_an_old_view_is_refreshed(cluster: FakeCluster) -> None:
    with metadata_of(cluster.bootstrap_servers, metadata_max_age_ms=0) as metadata:
        metadata.topic("orders", soon())
        metadata.topic("orders", soon())
    assert asked_topics(cluster) == [["orders"], ["orders"]]


def test_an_error_met_during_a_refresh_asks_for_another(
    cluster: FakeCluster, metadata: Metadata
) -> None:
    def mark(seen: SeenRequest, answer: Message) -> Message:
        metadata.mark_stale()  # the answer is on its way, and may be older than the error
        return answer

    metadata.brokers(soon())
    metadata.mark_stale()
    cluster.on("Metadata", alter(mark))
    metadata.brokers(soon())
    assert metadata.is_old


def test_threads_that_want_the_same_ask_once(cluster: FakeCluster, metadata: Metadata) -> None:
    metadata.brokers(soon())
    metadata.mark_stale()
    failures: list[BaseException] = []
    together = threading.Barrier(8)

    def work() -> None:
        try:
            together.wait(20)
            metadata.topic("orders", soon())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert failures == []
    assert asked_topics(cluster)[1:] == [["orders"]]


def test_a_topic_that_does_not_exist(cluster: FakeCluster, metadata: Metadata) -> None:
    with pytest.raises(TopicNotFound, match="topic 'nowhere' cannot be used; check its name") as e:
        metadata.topic("nowhere", soon())
    assert e.value.topic == "nowhere"  # type: ignore[attr-defined]
    metadata.refresh(soon())
    assert asked_topics(cluster)[-1] == []  # nobody goes on asking for it


def test_a_topic_that_is_made_a_moment_later_is_waited_for(
    cluster: FakeCluster, metadata: Metadata
) -> None:
    cluster.on("Metadata", error_code(3), times=2, matching=lambda seen: "orders" in str(seen))
    assert metadata.topic("orders", soon()).partitions


def test_a_topic_may_be_created_by_asking_and_only_that_one() -> None:
    with (
        FakeCluster(topics={"orders": 1}, auto_create_topics=True) as cluster,
        metadata_of(cluster.bootstrap_servers) as metadata,
    ):
        metadata.topic("orders", soon())
        cluster.delete_topic("orders")
        metadata.mark_stale()
        assert metadata.topic("made", soon(), create=True).partitions
        with pytest.raises(TopicNotFound):
            metadata.topic("orders", soon())
        with pytest.raises(TopicNotFound):
            metadata.topic("another", soon())


def test_a_name_that_no_topic_can_have(cluster: FakeCluster, metadata: Metadata) -> None:
    cluster.on("Metadata", error_code(17), times=None)
    with pytest.raises(InvalidRequest, match="INVALID_TOPIC"):
        metadata.topic("no spaces, please", soon())


def test_a_broker_that_does_not_answer_leaves_time_for_the_others(
    cluster: FakeCluster, metadata: Metadata
) -> None:
    for node in (1, 2):
        cluster.pause(node)
    assert set(metadata.brokers(Deadline(4))) == {1, 2, 3}
    for node in (1, 2):
        cluster.resume(node)


def test_a_broker_that_fails_is_asked_last(cluster: FakeCluster, metadata: Metadata) -> None:
    metadata.brokers(soon())
    cluster.kill(2)
    for _ in range(10):
        metadata.refresh(soon())
        assert 2 not in [endpoint.node for endpoint in metadata.candidates()[:2]]


def test_one_wrong_bootstrap_address_does_no_harm(cluster: FakeCluster) -> None:
    with FakeCluster() as dead:
        gone = dead.address(1)
    for _ in range(4):  # they are tried in any order
        with metadata_of(f"{gone},nowhere.invalid:9092,{cluster.address(1)}") as metadata:
            assert len(metadata.brokers(soon())) == 3


def test_when_nobody_can_be_asked_each_is_named_with_its_reason(cluster: FakeCluster) -> None:
    servers = cluster.bootstrap_servers
    cluster.close()
    with (
        metadata_of(f"{servers},nowhere.invalid:9092") as metadata,
        pytest.raises(KafkaTimeout, match="asking for the cluster's metadata") as got,
    ):
        metadata.brokers(Deadline(1.5))  # on a busy machine, too, enough to try each once
    cause = got.value.cause
    assert isinstance(cause, TransportError)
    for part in (*servers.split(","), "Connection refused", "'nowhere.invalid' cannot be resolved"):
        assert part in str(cause)


def test_only_wrong_addresses_are_no_reason_to_go_on_trying(cluster: FakeCluster) -> None:
    cluster.on("ApiVersions", error_code(42), times=None)
    with metadata_of(cluster.address(1)) as metadata, pytest.raises(KafkaError) as got:
        metadata.brokers(Deadline(600))
    assert not got.value.retriable


# --- re-bootstrap: KIP-899, KIP-1102 ---


@contextmanager
def moved_cluster(**options: Any) -> Iterator[tuple[Metadata, FakeCluster]]:
    """Metadata of a cluster that has died; another one answers at a bootstrap address."""
    with FakeCluster(brokers=2) as new, FakeCluster(brokers=2) as old:
        new.kill(1)
        with metadata_of(f"{old.address(1)},{new.address(1)}", **options) as metadata:
            metadata.refresh(soon())
            assert metadata.view.brokers[2].address == old.address(2)
            old.close()
            new.start(1)
            yield metadata, new


def test_when_every_known_broker_is_gone_the_bootstrap_addresses_are_asked() -> None:
    with moved_cluster() as (metadata, new):
        metadata.refresh(soon())
        assert metadata.view.brokers[2].address == new.address(2)


def test_unless_the_user_does_not_want_that() -> None:
    with (
        moved_cluster(metadata_recovery_strategy="none") as (metadata, _),
        pytest.raises(KafkaTimeout),
    ):
        metadata.refresh(Deadline(0.3))


def is_no_probe(seen: SeenRequest) -> bool:
    return seen.version > 0


def bootstrap_anew(seen: SeenRequest, answer: Message) -> Message:
    assert isinstance(answer, MetadataResponse)
    answer.error_code = REBOOTSTRAP_REQUIRED
    return answer


def test_a_broker_may_ask_to_bootstrap_anew(cluster: FakeCluster) -> None:
    with metadata_of(cluster.address(1)) as metadata:
        metadata.refresh(soon())
        fault = cluster.on("Metadata", alter(bootstrap_anew), matching=is_no_probe)
        metadata.refresh(soon())
        assert len(fault.hits) == 1
        last = cluster.requests("Metadata")[-1]
        assert last.node == 1  # the bootstrap address, although three brokers were known
        assert set(metadata.view.brokers) == {1, 2, 3}


def test_a_broker_may_ask_in_vain(cluster: FakeCluster) -> None:
    with metadata_of(cluster.address(1), metadata_recovery_strategy="none") as metadata:
        cluster.on("Metadata", alter(bootstrap_anew), matching=is_no_probe)
        with pytest.raises(BrokerError, match="REBOOTSTRAP_REQUIRED"):
            metadata.refresh(soon())


def test_after_long_failing_the_bootstrap_addresses_come_first(cluster: FakeCluster) -> None:
    trigger = {"metadata_recovery_rebootstrap_trigger_ms": 0}
    with FakeCluster() as other, metadata_of(other.address(1), **trigger) as metadata:
        metadata.refresh(soon())
        metadata._bootstrap = [each._replace(port=1) for each in metadata._bootstrap]
        assert [each.is_bootstrap for each in metadata.candidates()] == [False, True]
        other.kill(1)
        with pytest.raises(KafkaTimeout):
            metadata.refresh(Deadline(0.2))
        assert [each.is_bootstrap for each in metadata.candidates()] == [True, False]
        other.start(1)
        metadata.refresh(soon())
        assert [each.is_bootstrap for each in metadata.candidates()] == [False, True]


def cluster_id(name: str) -> Callable[[SeenRequest, Message], Message]:
    def change(seen: SeenRequest, answer: Message) -> Message:
        assert isinstance(answer, MetadataResponse)
        answer.cluster_id = name
        for topic in answer.topics:
            topic.partitions = []
        return answer

    return change


def test_an_address_that_now_belongs_to_another_cluster_is_not_believed(
    cluster: FakeCluster,
) -> None:
    with metadata_of(cluster.address(1)) as metadata:
        metadata.topic("orders", soon())
        for node in (2, 3):
            cluster.on("Metadata", alter(cluster_id("stranger")), times=None, node=node)
        for _ in range(5):
            metadata.refresh(soon())
        assert metadata.view.cluster_id == "fake-kclient-cluster-0"
        assert len(metadata.topic("orders", soon()).partitions) == 3


def test_a_bootstrap_address_that_names_another_cluster_is(
    cluster: FakeCluster, metadata: Metadata, caplog: pytest.LogCaptureFixture
) -> None:
    metadata.topic("orders", soon())
    cluster.on("Metadata", alter(cluster_id("recreated")), times=None)
    metadata.refresh(soon())
    assert metadata.view.cluster_id == "recreated"
    assert metadata.view.topics["orders"].partitions == {}
    assert "is cluster 'recreated' now" in caplog.text


# --- old brokers ---


def test_a_fresh_0_8_lists_no_brokers_and_is_still_there() -> None:
    with (
        FakeCluster(speaks=KAFKA_0_8, topics={"orders": 1}) as cluster,
        metadata_of(cluster.bootstrap_servers) as metadata,
    ):
        cluster.on("Metadata", alter(without_brokers), times=None)
        assert metadata.brokers(soon()) == {}
        assert [each.address for each in metadata.candidates()] == [cluster.address(1)]


def without_brokers(seen: SeenRequest, answer: Message) -> Message:
    assert isinstance(answer, MetadataResponse)
    answer.brokers = []
    return answer


@pytest.mark.parametrize(
    ("topics", "version", "wanted"),
    [
        (None, 0, []),
        ((), 0, ["~"]),
        (["a"], 0, []),  # by name, it might be made
        (None, 1, None),
        (["a"], 3, None),
        (["b", "a"], 4, ["a", "b"]),
        ((), 13, []),
    ],
)
def test_all_topics_some_or_none_in_every_version(
    topics: list[str] | None, version: int, wanted: list[str] | None
) -> None:
    request = metadata_request(topics, version)
    names = None if request.topics is None else [each.name for each in request.topics]
    assert names == wanted
    assert MetadataRequest.decode(request.encode(version), version).topics == request.topics


@pytest.mark.parametrize("version", [0, 3, 13])
def test_a_topic_that_is_to_be_made_is_asked_for_by_name(version: int) -> None:
    request = metadata_request(["a"], version, create=True)
    assert [each.name for each in request.topics or ()] == ["a"]


def test_a_question_that_is_not_answered_is_put_to_another(
    cluster: FakeCluster, metadata: Metadata
) -> None:
    metadata.brokers(soon())
    fault = cluster.on("Metadata", drop(), matching=is_no_probe)
    assert metadata.refresh(Deadline(4)).brokers
    assert len(fault.hits) == 1


def test_an_answer_that_is_too_large_says_so_at_once() -> None:
    names = {f"a-topic-with-a-long-name-{number}": 1 for number in range(40)}
    with (
        FakeCluster(topics=names) as cluster,
        metadata_of(cluster.address(1), receive_message_max_bytes=1024) as metadata,
        pytest.raises(ProtocolError, match="where 0 to 1024 are allowed"),
    ):
        metadata.refresh(Deadline(600), None)
