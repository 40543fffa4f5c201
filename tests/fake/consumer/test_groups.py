"""Groups under faults: coordinators that move, members that are thrown out, commits that fail."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import pytest

from kclient import Consumer, OffsetAndMetadata, TopicPartition
from kclient.errors import BrokerError, CommitFailed, KafkaError, NotAuthorized, TopicNotFound
from kclient.protocol.messages.join_group import JoinGroupRequest
from kclient.protocol.messages.leave_group import LeaveGroupRequest
from kclient.protocol.messages.offset_commit import OffsetCommitRequest
from kclient.testing import FakeCluster
from kclient.testing.fake import (
    close_after,
    close_before,
    delay,
    drop,
    error_code,
    garbage,
    move_coordinator,
)

from .conftest import Make
from .steps import TP, consumer_of, eventually, fill, poll_until, polls, read

ALL = {TopicPartition("orders", number) for number in range(4)}
STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]


class Diary:
    """What a consumer's callbacks were told, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, set[TopicPartition]]] = []

    def subscribe(self, consumer: Consumer) -> None:
        def write(what: str) -> Callable[[list[TopicPartition]], None]:
            return lambda tps: self.told.append((what, set(tps)))

        consumer.subscribe(
            "orders",
            on_assigned=write("on_assigned"),
            on_revoked=write("on_revoked"),
            on_lost=write("on_lost"),
        )

    def of(self, what: str) -> list[set[TopicPartition]]:
        return [tps for name, tps in self.told if name == what and tps]


def share(*consumers: Consumer) -> None:
    """Poll all in turn until each partition has exactly one reader."""
    end = time.monotonic() + 20
    while True:
        for consumer in consumers:
            consumer.poll(0.05)
        owned = [tp for consumer in consumers for tp in consumer.assignment()]
        if len(owned) == len(ALL) == len(set(owned)) and all(c.assignment() for c in consumers):
            return
        assert time.monotonic() < end, [consumer.assignment() for consumer in consumers]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_members_come_and_go(cluster: FakeCluster, consume: Make, strategy: str) -> None:
    options = {"group_id": "g", "partition_assignment_strategy": [strategy]}
    diary = Diary()
    first = consume(cluster, **options)
    diary.subscribe(first)
    share(first)
    second = consume(cluster, **options)
    second.subscribe("orders")
    share(first, second)
    kept = first.assignment()
    if strategy == "cooperative-sticky":
        assert diary.of("on_revoked") == [ALL - kept], "what stays is not given up"
    else:
        assert diary.of("on_revoked") == [ALL]
    second.close()
    share(first)
    assert diary.of("on_lost") == []


def test_committed_offsets_go_over_to_the_next_reader(cluster: FakeCluster) -> None:
    with consumer_of(cluster, group_id="g") as first:
        first.subscribe("orders")
        fill(cluster, 10)
        read(first, 10)
    more = fill(cluster, 5)
    with consumer_of(cluster, group_id="g") as second:
        second.subscribe("orders")
        assert read(second, 5) == more


def test_leaving_is_told_and_dynamic(cluster: FakeCluster) -> None:
    with consumer_of(cluster, group_id="g") as consumer:
        consumer.subscribe("orders")
        share(consumer)
        member = consumer.group_metadata().member_id
    left = cluster.await_request("LeaveGroup").message
    assert isinstance(left, LeaveGroupRequest)
    assert [each.member_id for each in left.members] == [member]


def test_static_member_does_not_leave(cluster: FakeCluster, consume: Make) -> None:
    with consumer_of(cluster, group_id="g", group_instance_id="one") as consumer:
        consumer.subscribe("orders")
        share(consumer)
    assert not cluster.requests("LeaveGroup")
    again = consume(cluster, group_id="g", group_instance_id="one")
    again.subscribe("orders")
    share(again)
    assert again.group_metadata().group_instance_id == "one"


def test_static_member_that_is_replaced_is_told(cluster: FakeCluster, consume: Make) -> None:
    diary = Diary()
    old = consume(cluster, group_id="g", group_instance_id="one")
    diary.subscribe(old)
    share(old)
    new = consume(cluster, group_id="g", group_instance_id="one")
    new.subscribe("orders")
    share(new)
    with pytest.raises(BrokerError, match="another consumer runs with the same") as caught:
        for _ in polls(old):
            pass
    assert caught.value.name == "FENCED_INSTANCE_ID"
    assert diary.of("on_lost") == [ALL]
    assert old.assignment() == set()


def test_coordinator_moves(cluster: FakeCluster, consume: Make) -> None:
    consumer = consume(cluster, group_id="g", auto_commit_interval_ms=20)
    diary = Diary()
    diary.subscribe(consumer)
    share(consumer)
    for node in (1, 2, 3):
        cluster.move_coordinator("g", node)
        count = fill(cluster, 5)
        assert read(consumer, 5) == count
        poll_until(consumer, lambda: cluster.committed("g").get(TP) == len(cluster.records(TP)))
    assert diary.of("on_lost") == [], "moving is no reason to lose anything"


def test_coordinator_is_killed(cluster: FakeCluster, consume: Make) -> None:
    consumer = consume(cluster, group_id="g")
    consumer.subscribe("orders")
    share(consumer)
    cluster.kill(cluster.coordinator("g"))
    values = fill(cluster, 5)
    assert read(consumer, 5) == values
    consumer.commit()
    assert cluster.committed("g")[TP] == 5


JOIN_FAULTS = {
    "dropped": drop(),
    "closed-before": close_before(),
    "closed-after": close_after(),
    "slow": delay(0.3),
    "loading": error_code(14),
    "unavailable": error_code(15),
    "moved": error_code(16),
    "unknown": error_code(25),
    "rebalances": error_code(27),
    "illegal": error_code(22),
}


@pytest.mark.parametrize("api", ["FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat"])
@pytest.mark.parametrize("name", JOIN_FAULTS)
def test_fault_of_membership(cluster: FakeCluster, consume: Make, api: str, name: str) -> None:
    if api == "FindCoordinator" and name in ("unknown", "rebalances", "illegal"):
        pytest.skip("not an answer of FindCoordinator")
    if (api, name) == ("JoinGroup", "dropped"):
        pytest.skip("a join may take as long as the slowest member: max_poll_interval_ms")
    fault = cluster.on(api, JOIN_FAULTS[name], nth=1, times=2)
    consumer = consume(cluster, group_id="g", request_timeout_ms=400, session_timeout_ms=2_000)
    consumer.subscribe("orders")
    values = fill(cluster, 5)
    assert sorted(set(read_at_least(consumer, values))) == sorted(values)
    poll_until(consumer, lambda: bool(fault.hits))
    share(consumer)


def read_at_least(consumer: Consumer, values: list[bytes]) -> list[bytes]:
    """Read until each value has come; thrown out of a group, some come twice."""
    got: list[bytes] = []
    for some in polls(consumer):
        got += [record.value or b"" for record in some]
        if set(values) <= set(got):
            return got
    raise AssertionError


@pytest.mark.parametrize(("code", "name"), [(25, "UNKNOWN_MEMBER_ID"), (22, "ILLEGAL_GENERATION")])
def test_failed_commit_says_why_and_the_member_joins_at_once(
    cluster: FakeCluster, consume: Make, code: int, name: str
) -> None:
    diary = Diary()
    consumer = consume(
        cluster,
        group_id="g",
        enable_auto_commit=False,
        heartbeat_interval_ms=2_000,
        session_timeout_ms=3_000,  # after which the fake forgets whom it did not throw out
    )
    diary.subscribe(consumer)
    fill(cluster, 5)
    read(consumer, 5)
    before = consumer.group_metadata()
    joins = len(cluster.requests("JoinGroup"))
    cluster.on("OffsetCommit", error_code(code))
    with pytest.raises(CommitFailed) as caught:
        consumer.commit()
    message = str(caught.value)
    for part in (name, before.member_id, f"generation {before.generation_id}", "s ago", "twice"):
        assert part in message
    assert not caught.value.retriable
    beats = len(cluster.requests("Heartbeat"))
    again = poll_until(consumer, lambda: len(cluster.requests("JoinGroup")) > joins)
    assert len(cluster.requests("Heartbeat")) == beats, "joining did not wait for a heartbeat"
    if not again:
        read(consumer, 5)
    assert diary.of("on_lost") == [ALL]
    assert diary.of("on_revoked") == []
    consumer.commit()
    assert cluster.committed("g")[TP] == 5


def test_commit_that_meets_a_rebalance(cluster: FakeCluster, consume: Make) -> None:
    consumer = consume(cluster, group_id="g", enable_auto_commit=False)
    consumer.subscribe("orders")
    share(consumer)
    cluster.on("OffsetCommit", error_code(27))
    with pytest.raises(CommitFailed, match="REBALANCE_IN_PROGRESS"):
        consumer.commit({TP: 1})
    share(consumer)
    consumer.commit({TP: 1})


def test_commit_is_tried_again(cluster: FakeCluster, consume: Make) -> None:
    consumer = consume(cluster, group_id="g", request_timeout_ms=400)
    consumer.subscribe("orders")
    share(consumer)
    for fault in (error_code(14), error_code(16), close_before(), drop(), close_after()):
        cluster.on("OffsetCommit", fault)
        consumer.commit({TP: OffsetAndMetadata(3, "note")})
    assert cluster.committed("g")[TP] == 3


def test_commit_of_what_is_not_there(cluster: FakeCluster, consume: Make) -> None:
    consumer = consume(cluster, group_id="g")
    cluster.on("OffsetCommit", error_code(3))
    with pytest.raises(TopicNotFound):
        consumer.commit({TopicPartition("orders", 0): 1}, timeout=5)
    cluster.on("OffsetCommit", error_code(30))
    with pytest.raises(NotAuthorized):
        consumer.commit({TP: 1}, timeout=5)


def test_commits_never_overtake_each_other(cluster: FakeCluster, consume: Make) -> None:
    """An attempt of an older commit that comes late must not undo a newer one."""
    consumer = consume(cluster, group_id="g", enable_auto_commit=False)
    consumer.subscribe("orders")
    share(consumer)
    fault = cluster.on("OffsetCommit", error_code(14), times=3)
    consumer.commit_async({TP: 1})
    fault.await_hit()
    consumer.commit_async({TopicPartition("orders", 1): 7})
    consumer.commit_async({TP: 2})
    consumer.commit({TP: 3})
    assert cluster.committed("g") == {TP: 3, TopicPartition("orders", 1): 7}
    order = [seen.message for seen in cluster.requests("OffsetCommit")]
    offsets = [
        each.committed_offset
        for message in order
        if isinstance(message, OffsetCommitRequest)
        for topic in message.topics
        for each in topic.partitions
        if each.partition_index == 0
    ]
    assert offsets == sorted(offsets)


def test_failure_in_the_background_is_counted(
    cluster: FakeCluster, consume: Make, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = consume(cluster, group_id="g")
    cluster.on("OffsetCommit", error_code(30))
    consumer.commit_async({TP: 1})
    eventually(lambda: consumer.metrics()["commit_failures"] == 1)
    assert "GROUP_AUTHORIZATION_FAILED" in caplog.text


def test_close_waits_for_what_is_on_its_way(cluster: FakeCluster) -> None:
    with consumer_of(cluster, group_id="g", enable_auto_commit=False) as consumer:
        cluster.on("OffsetCommit", delay(0.3))
        consumer.commit_async({TP: 4})
    assert cluster.committed("g") == {TP: 4}


def test_heartbeats_go_on_while_the_user_is_busy(cluster: FakeCluster, consume: Make) -> None:
    consumer = consume(cluster, group_id="g", session_timeout_ms=6_000)
    consumer.subscribe("orders")
    share(consumer)
    count = len(cluster.requests("Heartbeat"))
    cluster.await_request("Heartbeat", nth=count + 5)  # nobody polls meanwhile
    values = fill(cluster, 5)
    assert read(consumer, 5) == values


def test_join_is_finished_while_the_user_is_busy(cluster: FakeCluster, consume: Make) -> None:
    """A rebalance that begins under a slow handler must not wait for its next poll to sync."""
    consumer = consume(cluster, group_id="g", partition_assignment_strategy=["cooperative-sticky"])
    consumer.subscribe("orders")
    share(consumer)
    syncs = len(cluster.requests("SyncGroup"))
    other = consume(cluster, group_id="g", partition_assignment_strategy=["cooperative-sticky"])
    other.subscribe("orders")
    thread = threading.Thread(target=other.poll, args=(0.5,))
    thread.start()
    joins = len(cluster.requests("JoinGroup"))
    poll_until(consumer, lambda: len(cluster.requests("JoinGroup")) > joins + 1)
    cluster.await_request("SyncGroup", nth=syncs + 1)
    thread.join()
    share(consumer, other)


def test_slow_handlers_are_warned_then_lose_their_partitions(
    cluster: FakeCluster, consume: Make, caplog: pytest.LogCaptureFixture
) -> None:
    diary = Diary()
    consumer = consume(cluster, group_id="g", max_poll_interval_ms=1_500)
    diary.subscribe(consumer)
    share(consumer)
    eventually(lambda: "no poll for 1." in caplog.text)
    assert "max_poll_interval_ms=1500" in caplog.text
    assert not cluster.requests("LeaveGroup"), "the warning comes first"
    cluster.await_request("LeaveGroup")
    share(consumer)
    assert diary.of("on_lost") == [ALL]


def test_iteration_counts_as_polling(cluster: FakeCluster, consume: Make) -> None:
    """Handlers may take max_poll_interval_ms for each record, not for a whole run of them."""
    fill(cluster, 8)
    diary = Diary()
    consumer = consume(cluster, group_id="g", max_poll_interval_ms=1_000)
    diary.subscribe(consumer)
    for record in consumer:
        time.sleep(0.4)  # the handler's work
        if record.offset == 7:
            break
    assert diary.of("on_lost") == []
    assert not cluster.requests("LeaveGroup")


def test_rebalance_in_the_middle_of_a_run(cluster: FakeCluster, consume: Make) -> None:
    """Iteration notices a rebalance before the next record, and commits what is done."""
    for tp in ALL:
        fill(cluster, 50, tp)
    consumer = consume(cluster, group_id="g", partition_assignment_strategy=["range"])
    consumer.subscribe("orders")
    seen: dict[TopicPartition, list[int]] = {}
    revoked: list[dict[TopicPartition, int]] = []
    consumer.subscribe(
        "orders",
        on_revoked=lambda tps: revoked.append(dict(cluster.committed("g"))),
    )
    cluster.on("Heartbeat", error_code(27), nth=3)
    for record in consumer:
        tp = TopicPartition(record.topic, record.partition)
        seen.setdefault(tp, []).append(record.offset)
        time.sleep(0.01)
        if sum(map(len, seen.values())) >= 200:
            break
    assert revoked, "nobody noticed the rebalance"
    assert {tp: sorted(offsets) for tp, offsets in seen.items()} == {
        tp: list(range(50)) for tp in ALL
    }, "each record once: positions were committed before they were given up"


def test_partitions_are_added(cluster: FakeCluster, consume: Make) -> None:
    cluster.create_topic("grows", 1)
    consumer = consume(cluster, group_id="g", metadata_max_age_ms=200)
    consumer.subscribe("grows")
    poll_until(consumer, lambda: len(consumer.assignment()) == 1)
    cluster.delete_topic("grows")
    cluster.create_topic("grows", 3)
    poll_until(consumer, lambda: len(consumer.assignment()) == 3)


def test_pattern_finds_topics_made_later(cluster: FakeCluster, consume: Make) -> None:
    consumer = consume(cluster, group_id="g", metadata_max_age_ms=200)
    consumer.subscribe(pattern="^ord.*")
    poll_until(consumer, lambda: consumer.assignment() == ALL)
    assert consumer.subscription() == {"orders"}
    cluster.create_topic("ordinary", 1)
    cluster.create_topic("other", 1)
    poll_until(consumer, lambda: len(consumer.assignment()) == 5)
    assert consumer.subscription() == {"orders", "ordinary"}


def test_missing_topic_is_warned_of_and_read_when_it_comes(
    cluster: FakeCluster, consume: Make, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = consume(cluster, group_id="g", metadata_max_age_ms=200)
    consumer.subscribe(["later", "orders"])
    poll_until(consumer, lambda: "no topic 'later'" in caplog.text)
    poll_until(consumer, lambda: consumer.assignment() == ALL)
    cluster.create_topic("later", 1)
    poll_until(consumer, lambda: len(consumer.assignment()) == 5)
    assert caplog.text.count("no topic 'later'") == 1


def test_unsubscribe_and_subscribe_again(cluster: FakeCluster, consume: Make) -> None:
    diary = Diary()
    consumer = consume(cluster, group_id="g")
    diary.subscribe(consumer)
    fill(cluster, 5)
    read(consumer, 5)
    consumer.unsubscribe()
    assert consumer.assignment() == set()
    assert diary.of("on_revoked") == [ALL]
    assert cluster.committed("g")[TP] == 5
    more = fill(cluster, 5)
    consumer.subscribe("orders")
    assert read(consumer, 5) == more


def test_refused_for_good_is_raised(cluster: FakeCluster, consume: Make) -> None:
    cluster.on("FindCoordinator", error_code(30))
    consumer = consume(cluster, group_id="g")
    consumer.subscribe("orders")
    with pytest.raises(NotAuthorized, match="'g'"):
        for _ in polls(consumer):
            pass
    share(consumer)


def test_old_session_limit(
    cluster: FakeCluster, consume: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka 0.9 allows sessions of 30 s at most: kclient lowers its own, and says so."""
    cluster.on("JoinGroup", error_code(26))
    consumer = consume(cluster, group_id="g")
    consumer.subscribe("orders")
    share(consumer)
    asked = [seen.message for seen in cluster.requests("JoinGroup")]
    lengths = {each.session_timeout_ms for each in asked if isinstance(each, JoinGroupRequest)}
    assert lengths == {45_000, 30_000}
    assert "trying 30000" in caplog.text


def test_dead_heartbeat_thread_is_told(
    cluster: FakeCluster, consume: Make, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = consume(cluster, group_id="g")
    consumer.subscribe("orders")
    share(consumer)
    consumer._group._member.beat = _die  # type: ignore[method-assign]
    with pytest.raises(KafkaError, match="heartbeat thread died.*as told"):
        for _ in polls(consumer):
            pass
    caplog.set_level(logging.CRITICAL)


def _die() -> float:
    raise ZeroDivisionError("as told")


def test_garbage_from_the_coordinator(cluster: FakeCluster, consume: Make) -> None:
    cluster.on("JoinGroup", garbage())
    consumer = consume(cluster, group_id="g")
    consumer.subscribe("orders")
    with pytest.raises(KafkaError):
        for _ in polls(consumer):
            pass
    share(consumer)


def test_coordinator_moves_under_a_commit(cluster: FakeCluster, consume: Make) -> None:
    consumer = consume(cluster, group_id="g")
    consumer.subscribe("orders")
    share(consumer)
    other = next(node for node in (1, 2, 3) if node != cluster.coordinator("g"))
    cluster.on("OffsetCommit", move_coordinator("g", other))
    consumer.commit({TP: 9})
    assert cluster.committed("g")[TP] == 9
