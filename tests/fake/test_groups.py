from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from kclient import TopicPartition
from kclient.deadline import Deadline
from kclient.testing import FakeCluster
from kclient.testing.fake import error_code, move_coordinator

from .actors import ClassicMember, ConsumerMember, commit

Start = Callable[..., FakeCluster]


@contextmanager
def classic(
    cluster: FakeCluster, *, instance: str | None = None, session_ms: int = 30_000
) -> Iterator[ClassicMember]:
    address = cluster.address(cluster.coordinator("g"))
    with ClassicMember(address, instance=instance, session_ms=session_ms) as member:
        yield member


@contextmanager
def consumer(cluster: FakeCluster, member_id: str) -> Iterator[ConsumerMember]:
    with ConsumerMember(cluster.address(cluster.coordinator("g")), member_id) as member:
        yield member


def test_two_members_agree_and_part(fake_cluster: Start) -> None:
    cluster = fake_cluster(brokers=2, topics={"orders": 2})
    with (
        classic(cluster) as one,
        classic(cluster) as two,
        ThreadPoolExecutor() as pool,
    ):
        alone = one.enter()
        assert (alone.error_code, alone.generation_id, alone.leader) == (0, 1, one.id)
        assert one.sync({one.id: b"all"}).assignment == b"all"
        assert two.join().error_code == 79
        joining = pool.submit(two.join)
        cluster.await_request("JoinGroup", nth=4)
        assert one.heartbeat() == 27
        assert one.commit() == 0  # what it has read may still be committed
        leads = one.join()
        follows = joining.result(10)
        assert {m.member_id for m in leads.members} == {one.id, two.id}
        assert (follows.leader, follows.members) == (one.id, [])
        assert one.generation == two.generation == 2
        waiting = pool.submit(two.sync)
        cluster.await_request("SyncGroup", nth=2)
        assert one.commit() == 27
        assert one.sync({one.id: b"half", two.id: b"other half"}).assignment == b"half"
        assert waiting.result(10).assignment == b"other half"
        assert (one.heartbeat(), two.heartbeat(), two.commit()) == (0, 0, 0)
        one.generation = 1
        assert (one.heartbeat(), one.commit()) == (22, 22)
        assert two.leave() == 0
        assert (two.heartbeat(), two.commit(), two.leave()) == (25, 25, 25)


def test_a_silent_member_is_dropped_after_its_session(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={"orders": 1})
    with classic(cluster) as one, classic(cluster, session_ms=300) as two:
        two.enter()
        two.sync({})
        assert one.join().error_code == 79
        answer = one.join()  # returns when the session of the other is over
        assert [m.member_id for m in answer.members] == [one.id]
        assert two.heartbeat() == 25


def test_a_static_member_keeps_its_place(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={"orders": 1})
    with (
        classic(cluster, instance="i") as before,
        classic(cluster, instance="i") as after,
    ):
        first = before.join()
        assert (first.error_code, first.skip_assignment, first.leader) == (0, False, before.id)
        before.sync({before.id: b"mine"})
        back = after.join()
        assert (back.error_code, back.generation_id, back.skip_assignment) == (0, 1, True)
        assert after.sync().assignment == b"mine"
        assert before.heartbeat() == 82
        assert after.heartbeat() == 0


def test_members_need_a_protocol_in_common(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={"orders": 1})
    with classic(cluster) as one, classic(cluster) as two:
        one.enter()
        two.join()
        assert two.join(protocol="sticky").error_code == 23


def test_offsets_of_nobody_are_taken_while_the_group_is_empty(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={"orders": 1})
    with classic(cluster) as member:
        assert commit(member.client, "", -1, 7) == 0
        assert cluster.committed("g") == {TopicPartition("orders", 0): 7}
        member.enter()
        assert commit(member.client, "", -1, 8) == 25
        assert cluster.committed("g") == {TopicPartition("orders", 0): 7}


def test_a_coordinator_that_moves_answers_those_who_wait(fake_cluster: Start) -> None:
    cluster = fake_cluster(brokers=2, topics={"orders": 1})
    cluster.move_coordinator("g", 1)
    with (
        classic(cluster) as one,
        classic(cluster) as two,
        ThreadPoolExecutor() as pool,
    ):
        one.enter()
        two.join()
        waiting = pool.submit(two.join)
        cluster.await_request("JoinGroup", nth=4)
        cluster.on("Heartbeat", move_coordinator("g", 2))
        assert one.heartbeat() == 16
        assert waiting.result(10).error_code == 16
    with classic(cluster) as moved:
        moved.id, moved.generation = one.id, one.generation
        assert moved.heartbeat() == 27


def test_a_scripted_rebalance(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={"orders": 1})
    with classic(cluster) as member:
        member.enter()
        member.sync({})
        cluster.on("Heartbeat", error_code(27), nth=2)
        assert [member.heartbeat() for _ in range(3)] == [0, 27, 0]


def test_the_broker_moves_partitions_from_member_to_member(fake_cluster: Start) -> None:
    cluster = fake_cluster(brokers=2, topics={"orders": 4}, group_heartbeat_interval_ms=123)
    with consumer(cluster, "a") as one, consumer(cluster, "b") as two:
        first = one.heartbeat()
        assert (one.partitions, one.epoch, first.heartbeat_interval_ms) == ([0, 1, 2, 3], 1, 123)
        assert one.heartbeat(full=False).assignment is None
        two.heartbeat()
        assert (two.partitions, two.epoch) == ([], 2)  # nothing is free yet
        one.heartbeat()
        assert (len(one.partitions), one.epoch) == (2, 1)  # it has to let go first
        two.heartbeat()
        assert two.partitions == []
        one.heartbeat()
        assert one.epoch == 2
        two.heartbeat()
        assert sorted(one.partitions + two.partitions) == [0, 1, 2, 3]
        assert commit(one.client, "a", 2) == 0
        assert commit(one.client, "a", 1) == 113
        one.epoch = 7
        assert one.heartbeat().error_code == 110
        two.epoch = -1
        assert two.heartbeat().error_code == 0
        assert two.heartbeat().error_code == 25


def test_a_new_topic_makes_a_new_epoch_for_its_subscribers_only(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={})
    with consumer(cluster, "a") as member:
        member.heartbeat()
        assert (member.partitions, member.epoch) == ([], 1)
        cluster.create_topic("others", 1)
        member.heartbeat()
        assert member.epoch == 1
        cluster.create_topic("orders", 2)
        member.heartbeat()
        assert (member.partitions, member.epoch) == ([0, 1], 2)


def test_a_silent_consumers_partitions_go_to_the_others(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={"orders": 2}, group_session_timeout_ms=200)
    with consumer(cluster, "a") as silent, consumer(cluster, "b") as other:
        silent.heartbeat()
        deadline = Deadline(10)
        while other.partitions != [0, 1]:
            assert deadline.remaining()
            other.heartbeat()
        assert silent.heartbeat().error_code == 25


@pytest.mark.parametrize("code", [14, 15, 16])
def test_a_coordinator_may_be_out_of_order(fake_cluster: Start, code: int) -> None:
    cluster = fake_cluster(topics={"orders": 1})
    cluster.on("ConsumerGroupHeartbeat", error_code(code))
    with consumer(cluster, "a") as member:
        assert [member.heartbeat().error_code for _ in range(2)] == [code, 0]
