"""Never silent: whatever happens, each assigned partition is being read, or will be by a moment.

Random faults and moves of a cluster, against a consumer that must keep one promise at any time
(every unpaused partition is fetched, validated, looked up, or waits until a moment that is
near), and another in the end: every record, once, in order.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kclient import Consumer, Record, TopicPartition
from kclient.fetch.positions import Phase
from kclient.testing import FakeCluster
from kclient.testing.fake import (
    Fault,
    SeenRequest,
    close_after,
    close_before,
    close_midway,
    delay,
    error_code,
    throttle,
)

from .conftest import Make
from .steps import TP, consumer_of, eventually, fill, poll_until, polls, read

TPS = [TopicPartition("orders", number) for number in range(4)]
LONGEST_WAIT = 0.5  # seconds: retry_backoff_max_ms here is 0.1 s, with jitter

FETCH_FAULTS: list[Fault] = [
    close_before(),
    close_after(),
    close_midway(),
    delay(0.05),
    throttle(50),
    *(error_code(code) for code in (3, 5, 6, 9, 56, 70, 71, 74, 75, 100, 103, 106, -1)),
]


def check_promise(consumer: Consumer) -> None:
    """No partition is where nothing will ever move it."""
    fetcher, now = consumer._fetcher, time.monotonic()
    for state in consumer._positions:
        if state.is_paused or state.error is not None:
            continue
        assert state.not_before - now < LONGEST_WAIT, state.reason
        if state.not_before > now or fetcher._plan.is_due(now):
            continue  # in backoff with a deadline, or looked at by the next step
        if state.phase is not Phase.FETCHING:
            recovery = fetcher._recovery
            is_asked = any(state.tp in asked for asked in recovery._asked.values())
            is_next = fetcher._tasks.is_running((state.phase, recovery._place(state)))
            assert is_asked or is_next or recovery._seen != consumer._positions.version
            continue
        asked = [line for line in fetcher._lines.values() if state.tp in line.session.wants]
        connecting = any(state.tp in share.states for share in fetcher._plan.shares.values())
        assert asked or connecting or fetcher._plan.lacks_leader, f"{state.tp} is forgotten"
        assert len(asked) <= 1, f"{state.tp} is asked for at two brokers"


def misfortune(cluster: FakeCluster, chance: random.Random) -> None:
    tp = chance.choice(TPS)
    alive = [node for node in (1, 2, 3) if cluster.connections(node) >= 0]
    what = chance.randrange(6)
    if what == 0:
        cluster.move_leader(tp, chance.choice(alive))
    elif what == 1:
        cluster.on("Fetch", close_before(), node=chance.choice(alive), times=2)
    elif what == 2:
        cluster.forget_fetch_sessions(chance.choice(alive))
    elif what == 3:
        cluster.on("Metadata", delay(0.05))
    else:
        cluster.on("Fetch", chance.choice(FETCH_FAULTS), node=chance.choice(alive))


@pytest.mark.parametrize("seed", range(12))
def test_random_faults(seed: int) -> None:
    chance = random.Random(seed)
    version = [18, 17, 12, 11, 6, 4][seed % 6]
    speaks = {"Fetch": version}
    with (
        FakeCluster(brokers=3, topics={"orders": 4}, speaks=speaks) as cluster,
        consumer_of(cluster, request_timeout_ms=1000, fetch_max_wait_ms=20) as consumer,
    ):
        consumer.assign(TPS)
        got: dict[TopicPartition, list[bytes]] = {tp: [] for tp in TPS}
        written: dict[TopicPartition, list[bytes]] = {tp: [] for tp in TPS}
        for _ in range(40):
            misfortune(cluster, chance)
            tp = chance.choice(TPS)
            written[tp] += fill(cluster, chance.randrange(1, 4), tp)
            paused = chance.sample(TPS, chance.randrange(0, 3))
            consumer.pause(paused)
            _note(consumer.poll(0.02), got)
            check_promise(consumer)
            consumer.resume(paused)
        for some in polls(consumer):
            _note(some, got)
            check_promise(consumer)
            if sum(map(len, got.values())) >= sum(map(len, written.values())):
                break
        assert got == written


def _note(records: list[Record], got: dict[TopicPartition, list[bytes]]) -> None:
    for record in records:
        got[TopicPartition(record.topic, record.partition)].append(record.value or b"")


def test_lag_without_progress_is_warned_of_once_and_cured(
    cluster: FakeCluster,
    consume: Make,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that keeps records to itself in a session is asked for all anew."""
    monkeypatch.setattr("kclient.fetch.plan.SILENCE", 0.3)
    monkeypatch.setattr("kclient.fetch.plan._LOOK_AGAIN", 0.1)
    consumer = consume(cluster)
    consumer.assign([TP])
    fill(cluster, 5)
    read(consumer, 5)
    state = consumer._positions.get(TP)
    state.end = 1000  # as if the broker had spoken of more
    poll_until(consumer, lambda: "none came for" in caplog.text)
    values = fill(cluster, 5)
    assert read(consumer, 5) == values

    def full() -> list[SeenRequest]:
        seen = cluster.requests("Fetch")
        return [each for each in seen if vars(each.message)["session_epoch"] == 0]

    poll_until(consumer, lambda: len(full()) == 2)


def test_failing_for_long_is_warned_of(
    cluster: FakeCluster,
    consume: Make,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kclient.fetch.plan.SILENCE", 0.3)
    fill(cluster, 5)
    fault = cluster.on("Fetch", error_code(6), times=None)
    consumer = consume(cluster)
    consumer.assign([TP])
    poll_until(consumer, lambda: "could not be read for" in caplog.text)
    assert "NOT_LEADER_OR_FOLLOWER" in consumer.health()[TP].reason
    fault.cancel()
    read(consumer, 5)


# --- old brokers ---


@pytest.mark.parametrize("version", range(19))
def test_every_version_of_fetch(
    fake_cluster: Callable[..., FakeCluster], consume: Make, version: int
) -> None:
    cluster = fake_cluster(brokers=2, topics={"orders": 4}, speaks={"Fetch": version})
    consumer = consume(cluster)
    consumer.assign(TPS)
    expected = sorted(value for tp in TPS for value in fill(cluster, 10, tp))
    assert sorted(read(consumer, 40)) == expected
    cluster.move_leader(TP, 3 - cluster.leader(TP))
    values = fill(cluster, 5)
    assert read(consumer, 5) == values
    assert {seen.version for seen in cluster.requests("Fetch")} == {version}


@pytest.mark.parametrize("version", range(10))
def test_every_version_of_joining(
    fake_cluster: Callable[..., FakeCluster], consume: Make, version: int
) -> None:
    speaks = {
        "JoinGroup": version,
        "SyncGroup": min(version, 5),
        "Heartbeat": min(version, 4),
        "LeaveGroup": min(version, 5),
        "OffsetCommit": max(version, 2),  # before that there were no members
        "OffsetFetch": max(version, 1),
        "FindCoordinator": min(version, 6),
        "ListOffsets": version,
        "Metadata": version,
    }
    cluster = fake_cluster(brokers=2, topics={"orders": 4}, speaks=speaks)
    first, second = consume(cluster, group_id="g"), consume(cluster, group_id="g")
    first.subscribe("orders")
    fill(cluster, 10)
    read(first, 10)
    second.subscribe("orders")
    poll_until(
        first,
        lambda: (
            second.poll(0.05) == []
            and (len(first.assignment()), len(second.assignment())) == (2, 2)
        ),
    )
    assert cluster.committed("g")[TP] == 10
    assert {seen.version for seen in cluster.requests("JoinGroup")} == {version}


# --- locks ---


class LockOrder:
    """Notes for every lock which others were held when it was taken: there must be no circle."""

    def __init__(self) -> None:
        self.after: dict[str, set[str]] = {}
        self._held = threading.local()

    def wrap(self, make: Callable[[], Any]) -> Callable[[], Any]:
        order = self

        class Watched:
            def __init__(self) -> None:
                self._lock = make()
                frame = sys._getframe(2)  # whoever called threading.Lock()
                self._name = f"{frame.f_code.co_filename}:{frame.f_lineno}"

            def acquire(self, *args: Any, **options: Any) -> bool:
                taken = bool(self._lock.acquire(*args, **options))
                if taken:
                    order.note(self._name)
                return taken

            def release(self) -> None:
                held = order.held()
                if self._name in held:
                    held.remove(self._name)
                self._lock.release()

            def __enter__(self) -> bool:
                return self.acquire()

            def __exit__(self, *exc_info: object) -> None:
                self.release()

            def __getattr__(self, name: str) -> Any:
                return getattr(self._lock, name)

        return Watched

    def held(self) -> list[str]:
        if not hasattr(self._held, "names"):
            self._held.names = []
        names: list[str] = self._held.names
        return names

    def note(self, name: str) -> None:
        held = self.held()
        for other in held:
            if other != name:
                self.after.setdefault(other, set()).add(name)
        held.append(name)

    def circles(self) -> list[tuple[str, str]]:
        def reach(start: str) -> set[str]:
            seen: set[str] = set()
            todo = [start]
            while todo:
                for each in self.after.get(todo.pop(), ()):
                    if each not in seen:
                        seen.add(each)
                        todo.append(each)
            return seen

        return [(name, name) for name in self.after if name in reach(name)]


@pytest.fixture
def lock_order(monkeypatch: pytest.MonkeyPatch) -> Iterator[LockOrder]:
    order = LockOrder()
    real, kclient = threading.Lock, "kclient"

    def made(make: Callable[[], Any]) -> Callable[[], Any]:
        watched = order.wrap(make)

        def choose() -> Any:
            module = sys._getframe(1).f_globals.get("__name__", "")
            is_ours = module.startswith(kclient) and ".testing" not in module
            return watched() if is_ours else make()

        return choose

    monkeypatch.setattr(threading, "Lock", made(real))
    monkeypatch.setattr(threading, "RLock", made(threading.RLock))
    yield order
    assert order.after, "no lock was taken inside of another: nothing was watched"
    assert not order.circles()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_locks_are_taken_in_one_order(
    fake_cluster: Callable[..., FakeCluster], lock_order: LockOrder, protocol: str
) -> None:
    cluster = fake_cluster(brokers=3, topics={"orders": 4}, group_heartbeat_interval_ms=100)
    options = {"group_id": "g", "group_protocol": protocol, "auto_commit_interval_ms": 10}
    with consumer_of(cluster, **options) as first, consumer_of(cluster, **options) as second:
        first.subscribe("orders")
        second.subscribe("orders")
        for tp in TPS:
            fill(cluster, 20, tp)
        poll_until(first, lambda: second.poll(0.05) is not None and len(first.assignment()) == 2)
        cluster.move_coordinator("g", 1 + cluster.coordinator("g") % 3)
        cluster.move_leader(TP, 1 + cluster.leader(TP) % 3)
        cluster.on("Heartbeat", close_before())
        cluster.on("OffsetCommit", error_code(16))
        first.commit()
        fill(cluster, 5)
        eventually(lambda: first.poll(0.1) or second.poll(0.1))
        first.health(), first.metrics(), first.lag()
