"""A member by the classic protocol: performs what the pure ``Membership`` decides.

The thread that polls runs callbacks and starts the errand that finds, joins and syncs; that
goes on while the user is busy, until there is a callback to run. Both, and the heartbeat
thread, ask the membership under one lock, and act outside of it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from kclient.cluster import ClusterView, Metadata
from kclient.cluster.tasks import Tasks
from kclient.config import ConsumerOptions
from kclient.deadline import Deadline
from kclient.errors import KafkaError
from kclient.group.actions import (
    Assign,
    Beat,
    Call,
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
from kclient.group.assignors.interface import PartitionsByTopic
from kclient.group.link import HEARTBEAT_LANE, CoordinatorLink
from kclient.group.member import FAR
from kclient.group.membership import Membership
from kclient.group.requests import GroupSettings
from kclient.group.subscription import Subscription
from kclient.protocol.messages.heartbeat import HeartbeatResponse
from kclient.protocol.messages.join_group import JoinGroupResponse
from kclient.protocol.messages.sync_group import SyncGroupResponse

_log = logging.getLogger(__name__)
_JOIN_LANE = "join"
_JOIN_MARGIN = 5.0  # seconds beyond the rebalance timeout that a join may take
_JOIN_LOOK = 0.1  # seconds after which to look whether a join is over


class ClassicMember:
    """See ``Member`` and the module."""

    def __init__(
        self,
        options: ConsumerOptions,
        link: CoordinatorLink,
        metadata: Metadata,
        wake: Callable[[], None],
        begin: Callable[[], None],
    ) -> None:
        """``wake`` has the user's thread call ``step``; ``begin`` starts the heartbeats."""
        self._link = link
        self._metadata = metadata
        self._wake = wake
        self._begin = begin
        self._join_seconds = options["max_poll_interval_ms"] / 1000 + _JOIN_MARGIN
        self._tasks = Tasks(wake)
        self._lock = threading.Lock()  # guards the membership
        self._membership = Membership(settings_of(options))
        self._is_joining = False
        self._spread: dict[str, int] | None = None
        """How many partitions the topics of the group had when this member spread them."""

    @property
    def identity(self) -> Identity:
        """Who commits."""
        with self._lock:
            return self._membership.identity

    @property
    def is_known(self) -> bool:
        """Whether the coordinator may know this member."""
        return self._link.endpoint is not None

    def subscribe(self, subscription: Subscription, now: float) -> None:
        """Read these topics from now on."""
        with self._lock:
            self._membership.subscribe(subscription.topics, now)

    def look(self, view: ClusterView) -> None:
        """The leader has the group rebalance when topics have other partitions than before."""
        spread = self._spread
        if spread is not None and spread != _counts(view, spread):
            self._spread = None
            with self._lock:
                self._membership.rejoin("topics have other partitions than before")

    def polled(self, now: float) -> None:
        """The user is alive."""
        with self._lock:
            self._membership.polled(now)

    def unsubscribe(self) -> None:
        """Give everything up."""
        with self._lock:
            self._membership.unsubscribe()

    def step(self, now: float) -> Call | float:
        """What the user has to see through next; else when to look again."""
        for _, result in list(self._tasks.collect()):
            if isinstance(result, KafkaError):
                raise result
        with self._lock:
            action = self._membership.next(now)
        if isinstance(action, (Revoke, Lose, Assign, Fail)):
            return action
        if isinstance(action, Wait):
            return action.until
        if not isinstance(action, (Ready, Leave)):
            self._tasks.start("group", self._carry_on)
        return FAR

    def done(self, call: Call) -> None:
        """The user has seen it through."""
        with self._lock:
            self._membership.done(call)

    def note_code(self, identity: Identity, code: int) -> None:
        """The coordinator answered a heartbeat or a commit with this code."""
        with self._lock:
            self._membership.answered(identity, code, time.monotonic())
        if code:
            self._wake()

    # --- the errand: find, join, spread, sync ---

    def _carry_on(self) -> None:
        """Do one request after the other until the user's thread has to do something."""
        while True:
            with self._lock:
                action = self._membership.next(time.monotonic())
            try:
                if isinstance(action, FindCoordinator):
                    self._find()
                elif isinstance(action, Join):
                    self._join(action)
                elif isinstance(action, Spread):
                    partitions = self._partitions(action.topics)
                    with self._lock:
                        self._membership.spread(partitions)
                elif isinstance(action, Sync):
                    deadline = Deadline(self._link.seconds)
                    synced = self._link.ask(action.request, SyncGroupResponse, _JOIN_LANE, deadline)
                    with self._lock:
                        self._membership.synced(synced, time.monotonic())
                else:
                    return
            except KafkaError as error:
                self._note_failure(error)
                return

    def _find(self) -> None:
        node = self._link.find(Deadline(self._link.seconds))
        with self._lock:
            self._membership.found(node)
        self._begin()

    def _join(self, join: Join) -> None:
        self._is_joining, self._spread = True, None
        try:
            deadline = Deadline(self._join_seconds)
            joined = self._link.ask(join.request, JoinGroupResponse, _JOIN_LANE, deadline)
            with self._lock:
                self._membership.joined(joined, time.monotonic())
        finally:
            self._is_joining = False

    def _note_failure(self, error: KafkaError) -> None:
        """A request did not get through."""
        self._link.forget(error)
        with self._lock:
            if error.retriable:
                _log.info("the coordinator was not reached: %s", error)
                self._membership.unreachable(time.monotonic())
            else:
                self._membership.refused(error)

    def _partitions(self, topics: Iterable[str]) -> PartitionsByTopic:
        """What the leader needs to know of topics, by fresh metadata."""
        view = self._metadata.refresh(Deadline(self._link.seconds), set(topics))
        self._spread = _counts(view, topics)
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

    # --- the heartbeat thread ---

    def beat(self) -> float:
        """Tell the coordinator that we live; when to do so again."""
        now = time.monotonic()
        if self._is_joining:  # a join on its way keeps the member alive
            return now + _JOIN_LOOK
        with self._lock:
            tick = self._membership.tick(now)
        if isinstance(tick, Wait):
            return tick.until
        try:
            self._perform(tick)
        except KafkaError as error:
            self._note_failure(error)
            self._wake()
        return now

    def _perform(self, tick: Tick) -> None:
        deadline = Deadline(self._link.seconds)
        if isinstance(tick, FindCoordinator):
            self._find()
            self._wake()
        elif isinstance(tick, Leave):
            self._wake()
            self._link.leave(tick, deadline)
        elif isinstance(tick, Beat):
            told = self._link.ask(tick.request, HeartbeatResponse, HEARTBEAT_LANE, deadline)
            self.note_code(tick.identity, told.error_code)

    # --- the end ---

    def leave(self, deadline: Deadline) -> None:
        """Tell the coordinator, if that is possible in time."""
        with self._lock:
            action = self._membership.next(time.monotonic())
        if isinstance(action, Leave):
            try:
                self._link.leave(action, deadline)
            except KafkaError as error:
                _log.info("leaving group %r: %s", action.group_id, error)
        with self._lock:
            self._membership.left()


def _counts(view: ClusterView, topics: Iterable[str]) -> dict[str, int]:
    known = view.topics
    return {name: len(known[name].partitions) if name in known else 0 for name in topics}


def settings_of(options: ConsumerOptions) -> GroupSettings:
    """The options that matter to a membership. Raises ConfigError for unknown assignors."""
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
