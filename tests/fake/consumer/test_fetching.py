"""Fetching under faults: sessions, leaders, followers, truncation, resets, lost answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import pytest

from kclient import TopicPartition
from kclient.errors import NotAuthorized, OffsetOutOfRange, TopicNotFound, UnsupportedVersion
from kclient.protocol.messages.fetch import FetchRequest, FetchResponse
from kclient.protocol.wire import Message
from kclient.testing import FakeCluster
from kclient.testing.fake import (
    Fault,
    SeenRequest,
    alter,
    close_after,
    close_before,
    close_midway,
    delay,
    drop,
    error_code,
    garbage,
    negative_frame,
    throttle,
    wrong_correlation_id,
)

from .conftest import Make
from .steps import TP, batch, fill, poll_until, polls, read

OTHER = TopicPartition("orders", 1)


def test_reads_all_partitions_in_order(cluster: FakeCluster, consume: Make) -> None:
    tps = [TopicPartition("orders", number) for number in range(4)]
    expected = {tp.partition: fill(cluster, 25, tp) for tp in tps}
    consumer = consume(cluster)
    consumer.assign(tps)
    got = read(consumer, 100)
    for number, values in expected.items():
        assert [each for each in got if each.startswith(b"%d/" % number)] == values


def test_never_more_than_max_poll_records(cluster: FakeCluster, consume: Make) -> None:
    fill(cluster, 30)
    consumer = consume(cluster, max_poll_records=7)
    consumer.assign([TP])
    sizes = [len(some) for some, _ in zip(polls(consumer), range(6), strict=False) if some]
    assert max(sizes) == 7
    assert len(consumer.poll(1.0, max_records=2)) <= 2


@pytest.mark.parametrize("code", [70, 71, 106], ids=["gone", "epoch", "topic-id"])
def test_session_error_leads_to_a_full_fetch(
    cluster: FakeCluster, consume: Make, code: int
) -> None:
    first = fill(cluster, 10)
    consumer = consume(cluster)
    consumer.assign([TP, OTHER])
    assert read(consumer, 10) == first
    cluster.forget_requests()
    leader = cluster.leader(TP)
    fault = cluster.on("Fetch", error_code(code), node=leader)
    poll_until(consumer, lambda: bool(fault.hits))
    second = fill(cluster, 10)
    assert read(consumer, 10) == second
    later = cluster.requests("Fetch", node=leader)
    full = [seen for seen in later if _fetch(seen).session_epoch == 0]
    assert len(full) == 1, "one full fetch after the session error"


def test_broker_that_forgets_sessions(cluster: FakeCluster, consume: Make) -> None:
    consumer = consume(cluster)
    consumer.assign([TP])
    for _ in range(3):
        values = fill(cluster, 5)
        assert read(consumer, 5) == values
        cluster.forget_fetch_sessions(cluster.leader(TP))


def test_session_stays_incremental(cluster: FakeCluster, consume: Make) -> None:
    tps = [TopicPartition("orders", number) for number in range(4)]
    consumer = consume(cluster)
    consumer.assign(tps)
    for number in range(5):
        values = fill(cluster, 5)
        assert read(consumer, 5) == values, number
    later = cluster.requests("Fetch", node=cluster.leader(TP))[3:]
    named = [len(topic.partitions) for seen in later for topic in _fetch(seen).topics]
    assert max(named, default=0) <= 1, "only what changed is named again"


def test_refused_again_and_again_does_not_spin(cluster: FakeCluster, consume: Make) -> None:
    fill(cluster, 5)
    fault = cluster.on("Fetch", error_code(71), times=None)
    consumer = consume(cluster)
    consumer.assign([TP])
    assert consumer.poll(1.0) == []
    assert len(cluster.requests("Fetch")) < 60
    fault.cancel()
    assert len(read(consumer, 5)) == 5


def test_leader_moves_while_reading(cluster: FakeCluster, consume: Make) -> None:
    consumer = consume(cluster)
    consumer.assign([TP])
    expected = fill(cluster, 10)
    assert read(consumer, 10) == expected
    for node in (1, 2, 3, 1):
        cluster.move_leader(TP, node)
        expected = fill(cluster, 10)
        assert read(consumer, 10) == expected


def test_hint_of_the_new_leader_is_used_at_once(cluster: FakeCluster, consume: Make) -> None:
    """KIP-951: no metadata are needed to follow a leader."""
    tps = [TopicPartition("orders", number) for number in range(4)]
    consumer = consume(cluster)
    consumer.assign(tps)
    for tp in tps:  # so that there is a connection to every broker
        fill(cluster, 5, tp)
    read(consumer, 20)
    old = cluster.leader(TP)
    cluster.on("Metadata", drop(), times=None)
    cluster.move_leader(TP, next(node for node in (1, 2, 3) if node != old))
    values = fill(cluster, 5)
    assert read(consumer, 5) == values


def test_answer_of_the_old_leader_brings_no_record_twice(
    cluster: FakeCluster, consume: Make
) -> None:
    old = cluster.leader(TP)
    new = next(node for node in (1, 2, 3) if node != old)
    consumer = consume(cluster, fetch_max_wait_ms=500)
    consumer.assign([TP, OTHER])
    fill(cluster, 5)
    read(consumer, 5)
    cluster.on("Fetch", delay(0.3), node=old, times=None)
    values = fill(cluster, 10)
    cluster.move_leader(TP, new)
    assert sorted(read(consumer, 10)) == sorted(values)
    assert consumer.poll(0.5) == []


def test_follower_of_the_own_rack_is_read(cluster: FakeCluster, consume: Make) -> None:
    """KIP-392."""
    leader = cluster.leader(TP)
    follower = next(node for node in (1, 2, 3) if node != leader)
    consumer = consume(cluster, client_rack={1: "a", 2: "b", 3: "c"}[follower])
    consumer.assign([TP])
    values = fill(cluster, 20)
    assert read(consumer, 20) == values
    assert cluster.requests("Fetch", node=follower)
    # A follower that is gone: back to the leader, without a loss.
    cluster.kill(follower)
    more = fill(cluster, 10)
    assert read(consumer, 10) == more


def test_out_of_range_at_a_follower_asks_the_leader(cluster: FakeCluster, consume: Make) -> None:
    leader = cluster.leader(TP)
    follower = next(node for node in (1, 2, 3) if node != leader)
    consumer = consume(cluster, client_rack={1: "a", 2: "b", 3: "c"}[follower])
    consumer.assign([TP])
    assert len(fill(cluster, 5)) == len(read(consumer, 5))
    cluster.on("Fetch", error_code(1), node=follower)
    values = fill(cluster, 5)
    assert read(consumer, 5) == values, "nothing was reset"


def test_truncation_is_told_by_the_broker(
    cluster: FakeCluster, consume: Make, caplog: pytest.LogCaptureFixture
) -> None:
    fill(cluster, 10)
    consumer = consume(cluster)
    consumer.assign([TP])
    read(consumer, 10)
    cluster.truncate(TP, 5)
    cluster.append(TP, batch(b"new-5", b"new-6"))
    assert read(consumer, 2) == [b"new-5", b"new-6"]
    assert "truncated to offset 5" in caplog.text


def test_truncation_without_a_policy_is_an_error(cluster: FakeCluster, consume: Make) -> None:
    fill(cluster, 10)
    consumer = consume(cluster, auto_offset_reset="none")
    consumer.assign([TP])
    consumer.seek(TP, 0)
    read(consumer, 10)
    cluster.truncate(TP, 5)
    with pytest.raises(OffsetOutOfRange, match="truncated to offset 5"):
        for _ in polls(consumer):
            pass
    consumer.seek(TP, 5)
    assert read(consumer, len(fill(cluster, 3)))[0].endswith(b"/5")


@pytest.mark.parametrize("fetch", [9, 11])
def test_truncation_is_asked_for_where_brokers_do_not_tell(
    fake_cluster: Callable[..., FakeCluster], consume: Make, fetch: int
) -> None:
    cluster = fake_cluster(brokers=2, topics={"orders": 1}, speaks={"Fetch": fetch})
    fill(cluster, 10)
    consumer = consume(cluster)
    consumer.assign([TP])
    read(consumer, 10)
    cluster.truncate(TP, 5)
    cluster.append(TP, batch(b"new-5"))
    assert read(consumer, 1) == [b"new-5"]
    assert cluster.requests("OffsetForLeaderEpoch")


@pytest.mark.parametrize("fault", [close_before(), error_code(7), error_code(76)], ids=str)
def test_failing_check_is_no_truncation(
    fake_cluster: Callable[..., FakeCluster], consume: Make, fault: Fault
) -> None:
    cluster = fake_cluster(brokers=2, topics={"orders": 1}, speaks={"Fetch": 11})
    consumer = consume(cluster)
    consumer.assign([TP])
    fill(cluster, 10)
    read(consumer, 10)
    cluster.on("OffsetForLeaderEpoch", fault, times=2)
    cluster.move_leader(TP, 3 - cluster.leader(TP))
    values = fill(cluster, 5)
    got: list[bytes] = []
    for _ in range(3):
        try:
            got += read(consumer, 5 - len(got))
        except Exception as error:
            assert "UNSUPPORTED_COMPRESSION_TYPE" in str(error)
    assert got == values


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_out_of_range_by_policy(cluster: FakeCluster, consume: Make, policy: str) -> None:
    fill(cluster, 10)
    cluster.delete_records(TP, 5)
    consumer = consume(cluster, auto_offset_reset=policy)
    consumer.assign([TP])
    consumer.seek(TP, 0)
    if policy == "earliest":
        assert read(consumer, 5)[0] == b"0/5"
    else:
        poll_until(consumer, lambda: consumer.health()[TP].position == 10)
        cluster.append(TP, batch(b"late"))
        assert read(consumer, 1) == [b"late"]


def test_out_of_range_without_a_policy(cluster: FakeCluster, consume: Make) -> None:
    fill(cluster, 10)
    cluster.delete_records(TP, 5)
    consumer = consume(cluster, auto_offset_reset="none")
    consumer.assign([TP])
    consumer.seek(TP, 0)
    with pytest.raises(OffsetOutOfRange, match=r"orders\[0\] has no offset 0.*seek"):
        for _ in polls(consumer):
            pass
    consumer.seek(TP, 5)
    assert read(consumer, 5)[0] == b"0/5"


@pytest.mark.timeout(30)
def test_what_is_final_is_told_at_once(
    cluster: FakeCluster, consume: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kclient.fetch.plan._LOOK_AGAIN", 600.0)
    consumer = consume(
        cluster, auto_offset_reset="by_duration:PT1H", api_version_caps={"ListOffsets": 0}
    )
    consumer.assign([TP])
    with pytest.raises(UnsupportedVersion, match="by timestamp: Kafka can since 0.10.1"):
        consumer.poll(timeout=600)


def test_throttle_is_honoured(cluster: FakeCluster, consume: Make) -> None:
    fill(cluster, 5)
    consumer = consume(cluster)
    consumer.assign([TP])
    cluster.on("Fetch", throttle(600))
    read(consumer, 5)
    seen = len(cluster.requests("Fetch"))
    consumer.poll(0.2)
    assert len(cluster.requests("Fetch")) == seen, "asked again while told to wait"
    values = fill(cluster, 5)
    assert read(consumer, 5) == values


FAULTS = {
    "dropped": drop(),
    "closed-before": close_before(),
    "closed-after": close_after(),
    "half": close_midway(),
    "slow": delay(0.3),
    "garbage": garbage(),
    "negative": negative_frame(),
    "number": wrong_correlation_id(),
    "not-leader": error_code(6),
    "unknown-topic": error_code(3),
    "unknown-id": error_code(100),
    "storage": error_code(56),
    "unknown-epoch": error_code(75),
    "fenced-epoch": error_code(74),
    "server": error_code(-1),
    "from-the-future": error_code(3333),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_of_one_fetch_loses_nothing(cluster: FakeCluster, consume: Make, name: str) -> None:
    consumer = consume(cluster, request_timeout_ms=400)
    consumer.assign([TP, OTHER])
    values = fill(cluster, 5)
    assert read(consumer, 5) == values
    cluster.on("Fetch", FAULTS[name], node=cluster.leader(TP), times=2)
    values = fill(cluster, 10)
    assert read(consumer, 10) == values
    assert consumer.poll(0.2) == []


@pytest.mark.parametrize("name", ["dropped", "closed-before", "half", "not-leader", "slow"])
def test_fault_on_the_way_to_a_position(cluster: FakeCluster, consume: Make, name: str) -> None:
    values = fill(cluster, 5)
    cluster.on("ListOffsets", FAULTS[name], times=2)
    consumer = consume(cluster, request_timeout_ms=400)
    consumer.assign([TP])
    assert read(consumer, 5) == values


def test_what_the_user_may_not_read_is_raised(cluster: FakeCluster, consume: Make) -> None:
    values = fill(cluster, 5)
    cluster.on("Fetch", error_code(29))
    consumer = consume(cluster)
    consumer.assign([TP])
    with pytest.raises(NotAuthorized, match=r"orders\[0\]"):
        for _ in polls(consumer):
            pass
    assert read(consumer, 5) == values


def test_missing_topic_is_told_early(cluster: FakeCluster, consume: Make) -> None:
    consumer = consume(cluster)
    consumer.assign([TopicPartition("ordres", 0)])
    started = time.monotonic()
    with pytest.raises(TopicNotFound, match="ordres"):
        for _ in polls(consumer):
            pass
    assert time.monotonic() - started < 10


def test_leaderless_partition_holds_up_no_other(cluster: FakeCluster, consume: Make) -> None:
    values = fill(cluster, 5)
    cluster.on("ListOffsets", error_code(6, partition=OTHER), times=None)
    consumer = consume(cluster)
    consumer.assign([TP, OTHER])
    assert read(consumer, 5, seconds=5.0) == values
    poll_until(consumer, lambda: "NOT_LEADER_OR_FOLLOWER" in consumer.health()[OTHER].reason)


def test_topic_deleted_and_made_anew(
    cluster: FakeCluster, consume: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    consumer = consume(cluster)
    consumer.assign([TP])
    fill(cluster, 10)
    read(consumer, 10)
    cluster.delete_topic("orders")
    assert consumer.poll(0.3) == []
    cluster.create_topic("orders", 4)
    values = fill(cluster, 20)  # more than the old one had: its offsets mean nothing here
    assert read(consumer, 20) == values
    assert "made anew" in caplog.text


def test_pause_and_resume(cluster: FakeCluster, consume: Make) -> None:
    values = fill(cluster, 20)
    consumer = consume(cluster, max_poll_records=5)
    consumer.assign([TP, OTHER])
    assert read(consumer, 5) == values[:5]
    consumer.pause([TP])
    assert consumer.paused() == {TP}
    others = fill(cluster, 5, OTHER)
    assert read(consumer, 5) == others
    assert consumer.poll(0.2) == []
    assert consumer.position(TP) == 5
    consumer.resume([TP])
    assert read(consumer, 15) == values[5:]


def test_broker_killed_and_started(cluster: FakeCluster, consume: Make) -> None:
    consumer = consume(cluster)
    consumer.assign([TP])
    fill(cluster, 5)
    read(consumer, 5)
    for _ in range(2):
        node = cluster.leader(TP)
        cluster.kill(node)
        values = fill(cluster, 5)
        assert read(consumer, 5) == values
        cluster.start(node)


def test_silent_broker_does_not_hold_up_the_others(cluster: FakeCluster, consume: Make) -> None:
    tps = [TopicPartition("orders", number) for number in range(3)]
    leaders = {tp: cluster.leader(tp) for tp in tps}
    assert len(set(leaders.values())) == 3
    consumer = consume(cluster, request_timeout_ms=5_000)
    consumer.assign(tps)
    for tp in tps:
        fill(cluster, 5, tp)
    read(consumer, 15)
    cluster.pause(leaders[tps[0]])
    values = fill(cluster, 5, tps[1])
    assert read(consumer, 5, seconds=3.0) == values
    cluster.resume(leaders[tps[0]])


def _fetch(seen: SeenRequest) -> FetchRequest:
    assert isinstance(seen.message, FetchRequest)
    return seen.message


def test_answer_without_the_partition_is_not_the_end(cluster: FakeCluster, consume: Make) -> None:
    def leave_out(seen: SeenRequest, message: Message) -> Message:
        assert isinstance(message, FetchResponse)
        message.responses = []
        return message

    values = fill(cluster, 5)
    cluster.on("Fetch", alter(leave_out), times=1)
    consumer = consume(cluster)
    consumer.assign([TP])
    assert read(consumer, 5) == values
