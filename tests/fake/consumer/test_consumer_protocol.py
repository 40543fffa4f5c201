"""The consumer protocol (KIP-848) under faults."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kclient import Consumer, TopicPartition
from kclient.errors import CommitFailed, NotAuthorized, UnsupportedVersion
from kclient.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kclient.testing import FakeCluster
from kclient.testing.fake import (
    Fault,
    close_after,
    close_before,
    delay,
    drop,
    error_code,
)

from .conftest import Make
from .steps import TP, eventually, fill, poll_until, polls, read

ALL = {TopicPartition("orders", number) for number in range(4)}
NEW = {"group_id": "g", "group_protocol": "consumer"}


@pytest.fixture
def cluster(fake_cluster: Callable[..., FakeCluster]) -> FakeCluster:
    return fake_cluster(brokers=3, topics={"orders": 4}, group_heartbeat_interval_ms=100)


def beats(cluster: FakeCluster) -> list[ConsumerGroupHeartbeatRequest]:
    found = [seen.message for seen in cluster.requests("ConsumerGroupHeartbeat")]
    return [each for each in found if isinstance(each, ConsumerGroupHeartbeatRequest)]


def share(*consumers: Consumer) -> None:
    def is_shared() -> bool:
        for consumer in consumers[1:]:
            consumer.poll(0.02)
        owned = [tp for consumer in consumers for tp in consumer.assignment()]
        return sorted(owned) == sorted(ALL) and all(each.assignment() for each in consumers)

    poll_until(consumers[0], is_shared)


def test_members_come_and_go(cluster: FakeCluster, consume: Make) -> None:
    revoked: list[TopicPartition] = []
    first, second = consume(cluster, **NEW), consume(cluster, **NEW)
    first.subscribe("orders", on_revoked=revoked.extend)
    share(first)
    second.subscribe("orders")
    share(first, second)
    assert set(revoked) == second.assignment(), "what stays is not given up"
    second.close()
    share(first)
    assert [each.member_epoch for each in beats(cluster)].count(-1) == 1


def test_only_changes_are_sent(cluster: FakeCluster, consume: Make) -> None:
    consumer = consume(cluster, **NEW)
    consumer.subscribe("orders")
    share(consumer)
    settled = len(beats(cluster)) + 1
    cluster.await_request("ConsumerGroupHeartbeat", nth=settled + 3)
    for each in beats(cluster)[settled:]:
        assert each.subscribed_topic_names is None
        assert each.topic_partitions is None


FAULTS: dict[str, Fault] = {
    "dropped": drop(),
    "closed-before": close_before(),
    "closed-after": close_after(),
    "slow": delay(0.3),
    "loading": error_code(14),
    "moved": error_code(16),
    "unknown": error_code(25),
    "fenced": error_code(110),
}


@pytest.mark.parametrize("nth", [1, 4], ids=["joining", "member"])
@pytest.mark.parametrize("name", FAULTS)
def test_fault_of_a_heartbeat(cluster: FakeCluster, consume: Make, name: str, nth: int) -> None:
    fault = cluster.on("ConsumerGroupHeartbeat", FAULTS[name], nth=nth, times=2)
    consumer = consume(cluster, **NEW, request_timeout_ms=400)
    consumer.subscribe("orders")
    values = fill(cluster, 5)
    got: list[bytes] = []
    for some in polls(consumer):
        got += [record.value or b"" for record in some]
        if set(got) == set(values) and len(fault.hits) == 2:
            break
    share(consumer)


def test_thrown_out_is_lost_not_revoked(cluster: FakeCluster, consume: Make) -> None:
    told: list[tuple[str, set[TopicPartition]]] = []
    consumer = consume(cluster, **NEW)
    consumer.subscribe(
        "orders",
        on_revoked=lambda tps: told.append(("revoked", set(tps))),
        on_lost=lambda tps: told.append(("lost", set(tps))),
    )
    share(consumer)
    cluster.on("ConsumerGroupHeartbeat", error_code(110))
    poll_until(consumer, lambda: bool(told))
    assert told == [("lost", ALL)]
    share(consumer)


def test_epochs_in_commits(cluster: FakeCluster, consume: Make) -> None:
    consumer = consume(cluster, **NEW, enable_auto_commit=False)
    consumer.subscribe("orders")
    share(consumer)
    cluster.on("OffsetCommit", error_code(113))  # the epoch has moved on: tried with the new one
    consumer.commit({TP: 3})
    assert cluster.committed("g")[TP] == 3
    sent = cluster.requests("OffsetCommit")[-1].message
    member = consumer.group_metadata()
    assert vars(sent)["generation_id_or_member_epoch"] == member.generation_id > 0
    assert vars(sent)["member_id"] == member.member_id


def test_refused_commit_has_the_member_ask_how_it_stands(
    fake_cluster: Callable[..., FakeCluster], consume: Make
) -> None:
    cluster = fake_cluster(topics={"orders": 4}, group_heartbeat_interval_ms=30_000)
    consumer = consume(cluster, **NEW)
    consumer.subscribe("orders")
    share(consumer)
    eventually(lambda: len(beats(cluster)) >= 2)
    count = len(beats(cluster))
    cluster.on("OffsetCommit", error_code(25))
    with pytest.raises(CommitFailed):
        consumer.commit({TP: 3})
    cluster.await_request("ConsumerGroupHeartbeat", nth=count + 1)


def test_pattern_is_matched_by_the_broker(cluster: FakeCluster, consume: Make) -> None:
    consumer = consume(cluster, **NEW)
    consumer.subscribe(pattern="ord.*")
    share(consumer)
    assert beats(cluster)[0].subscribed_topic_regex == "ord.*"
    cluster.create_topic("ordinary", 2)
    poll_until(consumer, lambda: len(consumer.assignment()) == 6)


def test_static_member(cluster: FakeCluster, consume: Make) -> None:
    first = consume(cluster, **NEW, group_instance_id="one")
    first.subscribe("orders")
    share(first)
    first.close()
    assert beats(cluster)[-1].member_epoch == -2
    again = consume(cluster, **NEW, group_instance_id="one")
    again.subscribe("orders")
    share(again)


def test_broker_without_it(fake_cluster: Callable[..., FakeCluster], consume: Make) -> None:
    cluster = fake_cluster(topics={"orders": 4}, speaks={"ConsumerGroupHeartbeat": None})
    consumer = consume(cluster, **NEW)
    consumer.subscribe("orders")
    with pytest.raises(UnsupportedVersion, match="use group_protocol='classic'"):
        for _ in polls(consumer):
            pass


def test_refused_for_good(cluster: FakeCluster, consume: Make) -> None:
    cluster.on("ConsumerGroupHeartbeat", error_code(30))
    consumer = consume(cluster, **NEW)
    consumer.subscribe("orders")
    with pytest.raises(NotAuthorized):
        for _ in polls(consumer):
            pass
    share(consumer)


def test_coordinator_moves(cluster: FakeCluster, consume: Make) -> None:
    consumer = consume(cluster, **NEW)
    lost: list[TopicPartition] = []
    consumer.subscribe("orders", on_lost=lost.extend)
    share(consumer)
    for node in (1, 2, 3):
        cluster.move_coordinator("g", node)
        values = fill(cluster, 5)
        assert read(consumer, 5) == values
        consumer.commit()
    assert not lost


def test_slow_handlers_lose_their_partitions(
    cluster: FakeCluster, consume: Make, caplog: pytest.LogCaptureFixture
) -> None:
    lost: list[TopicPartition] = []
    consumer = consume(cluster, **NEW, max_poll_interval_ms=1_000)
    consumer.subscribe("orders", on_lost=lost.extend)
    share(consumer)
    eventually(lambda: beats(cluster)[-1].member_epoch == -1)
    assert "no poll for" in caplog.text
    share(consumer)
    assert set(lost) == ALL
