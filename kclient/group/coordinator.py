"""A consumer's group: its subscription, its member, its commits, and what the user is told."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from kclient.cluster import Metadata, Router
from kclient.cluster.tasks import Tasks
from kclient.config import ConsumerOptions
from kclient.deadline import Deadline
from kclient.errors import ConfigError
from kclient.group.actions import Assign, Call, Fail, Identity, Revoke
from kclient.group.alone import Alone
from kclient.group.classic import ClassicMember
from kclient.group.commits import Commits, Offsets
from kclient.group.consumer_protocol import ConsumerProtocolMember
from kclient.group.heartbeat import Heartbeat
from kclient.group.link import CoordinatorLink
from kclient.group.member import FAR, Member
from kclient.group.subscription import Subscription
from kclient.group.topics import TopicWatch
from kclient.net.pool import Pool
from kclient.types import GroupMetadata, TopicPartition

_log = logging.getLogger(__name__)
_REVOKE_SECONDS = 10.0
_LATE = 0.8  # of max_poll_interval_ms, when a warning is due
Listener = Callable[[list[TopicPartition]], object]


class Listeners(NamedTuple):
    """What the user wants to be told."""

    on_assigned: Listener | None = None
    on_revoked: Listener | None = None
    on_lost: Listener | None = None


class Reader(Protocol):
    """Whoever reads the partitions that the group gives."""

    def add(self, tps: Iterable[TopicPartition]) -> None:
        """Read these too."""

    def remove(self, tps: Iterable[TopicPartition]) -> None:
        """Read these no more."""

    def finished(self) -> Offsets:
        """Up to where the user is done, by partition."""

    def progress(self) -> object:
        """Anything that differs when the user has come further; for any thread."""

    def wake(self) -> None:
        """Have the user's thread call ``Group.drive`` soon; from any thread."""


class Group:
    """Membership, heartbeats and commits of one consumer; also of one without a group."""

    def __init__(
        self,
        options: ConsumerOptions,
        pool: Pool,
        router: Router,
        metadata: Metadata,
        reader: Reader,
    ) -> None:
        """Raises ConfigError for assignors that do not exist."""
        self._group_id = options["group_id"] or ""
        self._instance_id = options["group_instance_id"]
        self._reader = reader
        self._tasks = Tasks(reader.wake)
        self._topics = TopicWatch(options, metadata, self._tasks)
        self._listeners = Listeners()
        self._heartbeat = Heartbeat(self._beat)
        self._member = self._member_of(options, pool, router, metadata)
        self._has_server_patterns = options["group_protocol"] == "consumer"
        self._rebalances = 0
        self._is_telling = False
        self._patience = options["max_poll_interval_ms"] / 1000
        self._polled_at = 0.0
        self._progress: object = None
        self._is_late = False
        self._last: tuple[Callable[[], Offsets], Deadline] | None = None
        """What to commit, and by when, while everything is given up."""
        self.commits = Commits(
            self._group_id,
            options,
            router,
            metadata,
            lambda: self._member.identity,
            self._note_code,
            self._situation,
        )

    def _member_of(
        self, options: ConsumerOptions, pool: Pool, router: Router, metadata: Metadata
    ) -> Member:
        if not self._group_id:
            return Alone(metadata)
        link = CoordinatorLink(self._group_id, options, pool, router)
        wake = self._reader.wake
        if options["group_protocol"] == "consumer":
            return ConsumerProtocolMember(options, link, metadata, wake, self._heartbeat)
        return ClassicMember(options, link, metadata, wake, self._heartbeat.start)

    # --- what the user wants ---

    @property
    def topics(self) -> set[str]:
        """The topics subscribed to, by name or by pattern."""
        return set(self._topics.subscription.topics)

    @property
    def is_subscribed(self) -> bool:
        """Whether partitions come from a subscription."""
        return self._topics.subscription.is_active

    @property
    def has_group(self) -> bool:
        """Whether there is a group to commit to."""
        return bool(self._group_id)

    def subscribe(self, topics: Sequence[str], pattern: str | None, listeners: Listeners) -> None:
        """Read topics, or those whose names match. Raises ConfigError for a bad pattern."""
        subscription = Subscription.of(topics, pattern)
        self._listeners = listeners
        self._topics.subscribe(subscription)
        if pattern is None or self._has_server_patterns:
            self._member.subscribe(subscription, time.monotonic())

    def unsubscribe(self, deadline: Deadline) -> None:
        """Give everything up and leave the group."""
        if self.is_subscribed:
            self._topics.subscribe(Subscription())
            self._leave(self._reader.finished, deadline)

    def metadata(self) -> GroupMetadata:
        """The member, for a transaction."""
        member = self._member.identity
        return GroupMetadata(self._group_id, member.generation, member.member_id, self._instance_id)

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
        if self._is_telling:
            return FAR  # a callback polls: what it is about has to end first
        self._heartbeat.check()
        now = time.monotonic()
        self._note_poll(now)
        next_look = FAR
        for _, result in list(self._tasks.collect()):
            self._topics.note_result(result, now)
        if self.is_subscribed:
            next_look = self._topics.refresh(now)
            self._look_at_topics(now)
            next_look = min(next_look, self._see_through(now))
        if self.has_group:
            next_look = min(next_look, self.commits.auto_commit(self._reader.finished, now))
        return next_look

    def _look_at_topics(self, now: float) -> None:
        view = self._topics.look()
        if view is None:
            return
        if self._topics.subscription.update(view):
            self._member.subscribe(self._topics.subscription, now)
        self._member.look(view)

    def _see_through(self, now: float) -> float:
        """Do what the member owes the user, until it waits; then, until when."""
        while True:
            step = self._member.step(now)
            if isinstance(step, float):
                return step
            self._tell(step)

    def _tell(self, call: Call) -> None:
        """Change what is read, and tell the user; the callback's error is raised after that."""
        try:
            with self._telling():
                if isinstance(call, Fail):
                    raise call.error
                tps = list(call.partitions)
                if isinstance(call, Assign):
                    self._reader.add(tps)
                    self._rebalances += 1
                    self._call(self._listeners.on_assigned, tps)
                elif isinstance(call, Revoke):
                    self._revoke(tps)
                else:
                    self._reader.remove(tps)
                    self._call(self._listeners.on_lost or self._listeners.on_revoked, tps)
        finally:
            self._member.done(call)
            self._heartbeat.nudge()

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        self._is_telling = True
        try:
            yield
        finally:
            self._is_telling = False
            self._note_poll(time.monotonic())

    def _revoke(self, tps: list[TopicPartition]) -> None:
        finished, deadline = self._last or (self._reader.finished, Deadline(_REVOKE_SECONDS))

        def given_up() -> Offsets:
            done = finished()
            return {tp: done[tp] for tp in tps if tp in done}

        try:
            if self.has_group:
                self.commits.commit_last(given_up, deadline)
            self._call(self._listeners.on_revoked, tps)
        finally:
            self._reader.remove(tps)

    def _call(self, listener: Listener | None, tps: list[TopicPartition]) -> None:
        if listener is not None:
            listener(tps)

    def _note_poll(self, now: float) -> None:
        self._polled_at = now
        self._is_late = False
        self._member.polled(now)

    def _note_code(self, identity: Identity, code: int) -> None:
        self._member.note_code(identity, code)

    def _situation(self) -> str:
        return f"the last poll was {time.monotonic() - self._polled_at:.1f} s ago"

    # --- the heartbeat thread ---

    def _beat(self) -> float:
        self._watch_progress(time.monotonic())
        return self._member.beat()

    def _watch_progress(self, now: float) -> None:
        """A record that iteration hands out is as good as a poll; warn before it is too late."""
        if not self.is_subscribed:
            return
        progress = self._reader.progress()
        if progress != self._progress:
            self._progress = progress
            self._note_poll(now)
        elif not self._is_late and now - self._polled_at > _LATE * self._patience:
            self._is_late = True
            _log.warning(
                "group %r: no poll for %.1f s; after max_poll_interval_ms=%d its partitions go "
                "to others: poll more often (pause partitions meanwhile), lower "
                "max_poll_records, or raise it",
                self._group_id,
                now - self._polled_at,
                int(self._patience * 1000),
            )

    # --- the end ---

    def close(self, finished: Callable[[], Offsets], deadline: Deadline) -> None:
        """Commit with auto-commit, leave the group; all by the deadline. Then ``stop``."""
        if self.is_subscribed:
            self._leave(finished, deadline)
        elif self.has_group:
            self.commits.commit_last(finished, deadline)

    def stop(self) -> None:
        """Begin nothing more."""
        self.commits.close()
        self._heartbeat.stop()

    def join(self, seconds: float) -> None:
        """Wait up to ``seconds`` for the heartbeat thread, after ``stop``."""
        self._heartbeat.join(seconds)

    def _leave(self, finished: Callable[[], Offsets], deadline: Deadline) -> None:
        """See the last calls through, then tell the coordinator, as far as the time allows."""
        self._last = (finished, deadline)
        self._member.unsubscribe()
        try:
            self._see_through(time.monotonic())
        finally:
            self._last = None
            if self._member.is_known and not deadline.is_over:
                self._member.leave(deadline)
