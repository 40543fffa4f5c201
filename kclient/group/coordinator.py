"""A consumer's group: performs what the membership decides.

The thread that polls runs callbacks and starts errands (find, join, sync), which may take as
long as the slowest member; the heartbeat thread does the rest. Both ask the membership under
one lock, and act outside of it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

from kclient.cluster import Coordinator, Metadata, Router
from kclient.cluster.target import CoordinatorKind
from kclient.cluster.tasks import Tasks
from kclient.config import ConsumerOptions
from kclient.deadline import Deadline
from kclient.errors import ConfigError, KafkaError
from kclient.group.actions import (
    Action,
    Assign,
    Beat,
    Fail,
    FindCoordinator,
    Identity,
    Join,
    Leave,
    Lose,
    Ready,
    Revoke,
    Spread,
    Sync,
    Tick,
    Wait,
)
from kclient.group.assignors import PartitionInfo, choose_assignors
from kclient.group.commits import Commits, Offsets
from kclient.group.heartbeat import Heartbeat
from kclient.group.membership import Membership
from kclient.group.offsets import Committed
from kclient.group.requests import GroupSettings
from kclient.group.subscription import Subscription
from kclient.net.endpoint import Endpoint
from kclient.net.pool import Pool
from kclient.protocol.messages.heartbeat import HeartbeatResponse
from kclient.protocol.messages.join_group import JoinGroupResponse
from kclient.protocol.messages.leave_group import LeaveGroupRequest
from kclient.protocol.messages.sync_group import SyncGroupResponse
from kclient.protocol.wire import Message
from kclient.types import GroupMetadata, TopicPartition

_log = logging.getLogger(__name__)
FAR = float("inf")
_GROUP, _TOPICS = "group", "topics"
_JOIN_MARGIN = 5.0  # seconds beyond the rebalance timeout that a join may take
_REVOKE_SECONDS = 10.0
Listener = Callable[[list[TopicPartition]], object]


class Listeners(NamedTuple):
    """What the user wants to be told."""

    on_assigned: Listener | None = None
    on_revoked: Listener | None = None
    on_lost: Listener | None = None


class Owned(Protocol):
    """The partitions that are read."""

    def add(self, tps: Iterable[TopicPartition]) -> None:
        """Read these too."""

    def remove(self, tps: Iterable[TopicPartition]) -> None:
        """Read these no more."""


class Group:
    """Membership, heartbeats and commits of one consumer."""

    def __init__(
        self,
        options: ConsumerOptions,
        pool: Pool,
        router: Router,
        metadata: Metadata,
        owned: Owned,
        wake: Callable[[], None],
        committable: Callable[[], Offsets],
    ) -> None:
        self._options = options
        self._pool = pool
        self._router = router
        self._metadata = metadata
        self._owned = owned
        self._wake = wake
        self._committable = committable
        self._group_id = options["group_id"] or ""
        self._tasks = Tasks(wake)
        self._subscription = Subscription()
        self._listeners = Listeners()
        self._lock = threading.Lock()  # guards the membership
        self._membership = Membership(_settings(options))
        self._heartbeat = Heartbeat(self._tick, self._perform_tick)
        self._coordinator: Endpoint | None = None
        self._is_joining = False
        self._counts: dict[str, int] = {}
        self._rebalances = 0
        self._request_seconds = options["request_timeout_ms"] / 1000
        self.commits = Commits(
            self._group_id, options, router, metadata, self._identity, self._note_code
        )

    # --- what the user wants ---

    @property
    def topics(self) -> set[str]:
        """The topics subscribed to, by name or by pattern."""
        return set(self._subscription.topics)

    @property
    def has_group(self) -> bool:
        """Whether there is a group to commit to."""
        return bool(self._group_id)

    def subscribe(self, topics: Sequence[str], pattern: str | None, listeners: Listeners) -> None:
        """Read topics, or those whose names match."""
        self._subscription = Subscription.of(topics, pattern)
        self._listeners = listeners
        self._metadata.mark_stale()
        if not pattern:
            self._apply_topics()

    def unsubscribe(self, deadline: Deadline) -> None:
        """Give everything up and leave the group."""
        self._subscription = Subscription()
        if self._heartbeat_runs or self._membership.owned:
            with self._lock:
                self._membership.unsubscribe()
            self._leave(deadline)

    def check_may_assign(self) -> None:
        """Raise ConfigError if partitions come from a subscription."""
        if self._subscription.is_active:
            raise ConfigError(
                "this consumer has a subscription; unsubscribe before assigning partitions"
            )

    def metadata(self) -> GroupMetadata:
        """The member, for a transaction."""
        member = self._identity()
        instance = self._options["group_instance_id"]
        return GroupMetadata(self._group_id, member.generation, member.member_id, instance)

    def committed(self, tps: Sequence[TopicPartition], deadline: Deadline) -> Committed:
        """What the group has committed. Raises ConfigError without a group."""
        self.check_group()
        return self.commits.committed(tps, deadline)

    def check_group(self) -> None:
        """Raise ConfigError without a group."""
        if not self.has_group:
            raise ConfigError("offsets are committed for a group: give the consumer a group_id")

    def metrics(self) -> dict[str, Any]:
        """Counts so far."""
        return {
            "rebalances": self._rebalances,
            "commits": self.commits.count,
            "commit_failures": self.commits.failures,
        }

    # --- the polling thread ---

    def drive(self) -> float:
        """Do what the membership wants of the thread that polls; when to look again.

        Runs the user's callbacks. Raises what keeps this consumer out of its group.
        """
        if self._heartbeat.death is not None:
            raise KafkaError("the heartbeat thread died") from self._heartbeat.death
        now = time.monotonic()
        for key, result in self._tasks.collect():
            self._note_task(key, result, now)
        next_look = FAR
        if self._subscription.is_active:
            next_look = self._refresh_topics(now)
            if self.has_group:
                next_look = min(next_look, self._drive_membership(now))
        if self.has_group:
            next_look = min(next_look, self.commits.auto_commit(self._committable, now))
        return next_look

    def _drive_membership(self, now: float) -> float:
        while True:
            with self._lock:
                self._membership.polled(now)
                action = self._membership.next(now)
            if isinstance(action, (Revoke, Lose, Assign, Fail)):
                self._tell(action)
            elif isinstance(action, Wait):
                return action.until
            elif isinstance(action, Ready) or self._tasks.is_running(_GROUP):
                return FAR
            else:
                self._is_joining = isinstance(action, Join)
                self._tasks.start(_GROUP, partial(self._perform, action))
                return FAR

    def _tell(self, call: Revoke | Lose | Assign | Fail) -> None:
        """Change what is read, and tell the user; the callback's error is raised after that."""
        if isinstance(call, Fail):
            with self._lock:
                self._membership.done(call)
            raise call.error
        tps = list(call.partitions)
        try:
            if isinstance(call, Assign):
                self._owned.add(tps)
                self._note_counts()
                self._rebalances += 1
                if self._listeners.on_assigned is not None:
                    self._listeners.on_assigned(tps)
            elif isinstance(call, Revoke):
                self._revoke(tps)
            else:
                self._owned.remove(tps)
                listener = self._listeners.on_lost or self._listeners.on_revoked
                if listener is not None:
                    listener(tps)
        finally:
            with self._lock:
                self._membership.done(call)

    def _revoke(self, tps: list[TopicPartition]) -> None:
        gone = set(tps)
        last = {tp: at for tp, at in self._committable().items() if tp in gone}
        self.commits.commit_last(last, Deadline(_REVOKE_SECONDS))
        try:
            if self._listeners.on_revoked is not None:
                self._listeners.on_revoked(tps)
        finally:
            self._owned.remove(tps)

    # --- errands: requests of the membership ---

    def _perform(self, action: Action) -> object:
        """Do one thing that takes a request; in a thread of its own."""
        if isinstance(action, FindCoordinator):
            return action, self._find_coordinator()
        if isinstance(action, Spread):
            return action, self._partitions(action.topics)
        if isinstance(action, Leave):
            self._send_leave(action)
            return action, None
        assert isinstance(action, (Join, Sync))
        seconds = self._request_seconds
        if isinstance(action, Join):
            seconds = self._options["max_poll_interval_ms"] / 1000 + _JOIN_MARGIN
        return action, self._ask(action.request, "join", seconds)

    def _note_task(self, key: object, result: object, now: float) -> None:
        if key == _TOPICS:
            self._note_topics(result)
            return
        self._is_joining = False
        with self._lock:
            if isinstance(result, KafkaError):
                self._note_failure(result, now)
                return
            action, answer = cast("tuple[Action, Any]", result)
            if isinstance(action, FindCoordinator):
                self._coordinator = answer
                self._membership.found(answer.node)
                self._heartbeat.start()
            elif isinstance(action, Join):
                self._membership.joined(cast(JoinGroupResponse, answer), now)
            elif isinstance(action, Spread):
                self._membership.spread(answer)
            elif isinstance(action, Sync):
                self._membership.synced(cast(SyncGroupResponse, answer), now)
            elif isinstance(action, Leave):
                self._membership.left()

    def _note_failure(self, error: KafkaError, now: float) -> None:
        """A request did not get through; the lock must be held."""
        self._router.forget(self._target, error)
        code = getattr(error, "code", None)
        if code is not None:
            self._membership.not_found(code, now)
        elif error.retriable:
            _log.info("group %r: %s", self._group_id, error)
            self._membership.unreachable(now)
        else:
            self._membership.refused(error)

    def _find_coordinator(self) -> Endpoint:
        self._router.forget(self._target, None)
        return self._router.locate(self._target, Deadline(self._request_seconds))

    @property
    def _target(self) -> Coordinator:
        return Coordinator(CoordinatorKind.GROUP, self._group_id)

    def _ask(self, request: Message, lane: str, seconds: float) -> Message:
        coordinator = self._coordinator
        assert coordinator is not None
        deadline = Deadline(seconds)
        with self._pool.lease(coordinator, lane, deadline) as connection:
            return connection.ask(request, connection.version_of(type(request)), deadline)

    def _partitions(self, topics: Iterable[str]) -> Mapping[str, list[PartitionInfo]]:
        """What the leader needs to know of topics, by fresh metadata."""
        view = self._metadata.refresh(Deadline(self._request_seconds), set(topics))
        racks = {node: endpoint.rack for node, endpoint in view.brokers.items()}
        found = {}
        for name in topics:
            topic = view.topics.get(name)
            if topic is not None and topic.partitions:
                found[name] = [
                    PartitionInfo(
                        number,
                        frozenset(rack for each in one.replica_nodes if (rack := racks.get(each))),
                    )
                    for number, one in sorted(topic.partitions.items())
                ]
        return found

    def _send_leave(self, leave: Leave) -> None:
        coordinator = self._coordinator
        if coordinator is None:
            return
        deadline = Deadline(self._request_seconds)
        with self._pool.lease(coordinator, "heartbeat", deadline) as connection:
            version = connection.version_of(LeaveGroupRequest)
            connection.ask(leave.request(version), version, deadline)

    # --- the heartbeat thread ---

    @property
    def _heartbeat_runs(self) -> bool:
        return self._coordinator is not None

    def _tick(self) -> Tick:
        if self._is_joining:  # a join on its way keeps the member alive
            return Wait(time.monotonic() + 0.1)
        with self._lock:
            return self._membership.tick(time.monotonic())

    def _perform_tick(self, tick: Beat | FindCoordinator | Leave) -> None:
        try:
            if isinstance(tick, FindCoordinator):
                found = self._find_coordinator()
                with self._lock:
                    self._coordinator = found
                    self._membership.found(found.node)
            elif isinstance(tick, Leave):
                self._send_leave(tick)
            else:
                answer = cast(
                    HeartbeatResponse, self._ask(tick.request, "heartbeat", self._request_seconds)
                )
                self._note_code(tick.identity, answer.error_code)
        except KafkaError as error:
            with self._lock:
                self._note_failure(error, time.monotonic())
        self._wake()

    def _note_code(self, identity: Identity, code: int) -> None:
        with self._lock:
            self._membership.answered(identity, code, time.monotonic())
        if code:
            self._wake()

    def _identity(self) -> Identity:
        with self._lock:
            return self._membership.identity

    # --- topics ---

    def _refresh_topics(self, now: float) -> float:
        """Keep the topics' metadata fresh, and look whether it changes what is subscribed."""
        if self._metadata.is_old and not self._tasks.is_running(_TOPICS):
            topics = None if self._subscription.pattern else self._subscription.topics
            deadline = Deadline(self._request_seconds)
            self._tasks.start(_TOPICS, lambda: self._metadata.refresh(deadline, topics))
        if self._subscription.update(self._metadata.view):
            self._apply_topics()
        elif self._watched_counts() != self._counts and self._counts:
            self._note_counts()
            if self.has_group:
                with self._lock:
                    self._membership.rejoin("topics have other partitions than before")
            else:
                self._apply_topics()
        return now + 1.0

    def _note_topics(self, result: object) -> None:
        if isinstance(result, KafkaError) and not result.retriable:
            raise result

    def _apply_topics(self) -> None:
        """Tell the membership; without a group all partitions are ours."""
        if self.has_group:
            with self._lock:
                self._membership.subscribe(self._subscription.topics, time.monotonic())
            return
        topics = self._metadata.view.topics
        wanted = [
            TopicPartition(name, number)
            for name in sorted(self._subscription.topics)
            if name in topics
            for number in sorted(topics[name].partitions)
        ]
        self._note_counts()
        self._owned.add(wanted)

    def _watched_counts(self) -> dict[str, int]:
        watched = self._membership.watched if self.has_group else self._subscription.topics
        topics = self._metadata.view.topics
        return {name: len(topics[name].partitions) for name in watched if name in topics}

    def _note_counts(self) -> None:
        self._counts = self._watched_counts()

    # --- the end ---

    def close(self, deadline: Deadline) -> None:
        """Commit with auto-commit, leave the group, stop the threads; all by the deadline."""
        try:
            if self.has_group:
                self.commits.commit_last(
                    self._committable(), deadline.within(deadline.left() or 0.001)
                )
            if self._heartbeat_runs and self._subscription.is_active:
                with self._lock:
                    self._membership.unsubscribe()
                self._leave(deadline)
        finally:
            self._heartbeat.stop(max(0.0, deadline.left()))

    def _leave(self, deadline: Deadline) -> None:
        """See the last calls and requests through, as far as the time allows."""
        while deadline.left():
            now = time.monotonic()
            with self._lock:
                action = self._membership.next(now)
            if isinstance(action, (Revoke, Lose, Assign)):
                self._tell(action)
            elif isinstance(action, Leave):
                try:
                    self._send_leave(action)
                except KafkaError as error:
                    _log.info("leaving group %r: %s", self._group_id, error)
                with self._lock:
                    self._membership.left()
            else:
                return


def _settings(options: ConsumerOptions) -> GroupSettings:
    return GroupSettings(
        group_id=options["group_id"] or "",
        assignors=choose_assignors(options["partition_assignment_strategy"]),
        session_timeout_ms=options["session_timeout_ms"],
        heartbeat_interval_ms=options["heartbeat_interval_ms"],
        max_poll_interval_ms=options["max_poll_interval_ms"],
        group_instance_id=options["group_instance_id"],
        client_rack=options["client_rack"] or None,
        retry_backoff_ms=options["retry_backoff_ms"],
        retry_backoff_max_ms=options["retry_backoff_max_ms"],
    )
