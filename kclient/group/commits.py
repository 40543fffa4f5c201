"""Commits of a group's offsets: on demand, in the background, and by the clock."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from kclient.cluster import Call, Coordinator, Metadata, Router
from kclient.cluster.target import CoordinatorKind
from kclient.cluster.tasks import Tasks
from kclient.config import ConsumerOptions
from kclient.deadline import Deadline
from kclient.errors import CommitFailed, KafkaError, KafkaTimeout, TopicNotFound, broker_error
from kclient.group.actions import Identity
from kclient.group.offsets import (
    STALE_MEMBER_EPOCH,
    Committed,
    commit_call,
    fetch_call,
    ids_of,
)
from kclient.protocol.wire import Message
from kclient.types import OffsetAndMetadata, TopicPartition

_log = logging.getLogger(__name__)
_LANE = "commit"
Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Commits:
    """Commits and fetches the offsets of one group, in the name of its member if there is one.

    Commits never overtake each other: one that is called for waits for those under way.
    """

    def __init__(
        self,
        group_id: str,
        options: ConsumerOptions,
        router: Router,
        metadata: Metadata,
        identity: Callable[[], Identity],
        note: Callable[[Identity, int], None],
        situation: Callable[[], str],
    ) -> None:
        """``note`` is told each answer's code, so that the membership can react.

        ``situation`` says for a failed commit how the member stands.
        """
        self.failures = 0
        self.count = 0
        self._group_id = group_id
        self._router = router
        self._metadata = metadata
        self._identity = identity
        self._note = note
        self._situation = situation
        self._tasks = Tasks(lambda: None)
        self._target = Coordinator(CoordinatorKind.GROUP, group_id)
        self._is_auto = options["enable_auto_commit"]
        self._interval = options["auto_commit_interval_ms"] / 1000
        self._seconds = options["default_api_timeout_ms"] / 1000
        self._require_stable = options["isolation_level"] == "read_committed"
        self._due = time.monotonic() + self._interval
        self._changed = threading.Condition()  # guards the three below and the two counts
        self._queued: dict[TopicPartition, OffsetAndMetadata] = {}
        self._is_busy = False
        self._is_closed = False

    def commit(self, offsets: Offsets, deadline: Deadline) -> None:
        """Commit, and wait for it. Raises CommitFailed, NotAuthorized, KafkaTimeout."""
        if not offsets:
            return
        self._await_queued(deadline)
        self._commit(offsets, deadline)

    def _commit(self, offsets: Offsets, deadline: Deadline) -> None:
        topics = self._metadata.view.topics
        ids = ids_of(
            {tp.topic for tp in offsets}, {name: each.topic_id for name, each in topics.items()}
        )
        asked = self._identity()

        def member() -> Identity:
            nonlocal asked
            asked = self._identity()
            return asked

        call = commit_call(self._group_id, member, offsets, ids)

        def read(answer: Message) -> None:
            for tp, code in call.read(answer).items():
                self._note(asked, code)
                if code:
                    raise self._error(code, tp, asked)

        self._router.ask(
            self._target, Call(call.api, call.build, read, call.at_most), deadline, lane=_LANE
        )
        with self._changed:
            self.count += 1

    # --- in the background ---

    def commit_async(self, offsets: Offsets) -> None:
        """Commit in the background, after those before it; a failure is logged."""
        if not offsets:
            return
        with self._changed:
            self._queued.update(offsets)
            if self._is_busy or self._is_closed:
                return  # the one on its way is followed by these
            self._is_busy = True
        list(self._tasks.collect())
        self._tasks.start(object(), self._commit_queued)

    def _commit_queued(self) -> None:
        while True:
            with self._changed:
                offsets, self._queued = self._queued, {}
                if not offsets or self._is_closed:
                    self._is_busy = False
                    self._changed.notify_all()
                    return
            try:
                self._commit(offsets, Deadline(self._seconds))
            except KafkaError as error:
                with self._changed:
                    self.failures += 1
                _log.warning("a commit in the background failed: %s", error)

    def _await_queued(self, deadline: Deadline) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: not self._is_busy, deadline.remaining()):
                raise KafkaTimeout(
                    f"an earlier commit for group {self._group_id!r} took all of the "
                    f"{deadline.seconds:g} s of this call"
                )

    def close(self) -> None:
        """Begin nothing more in the background."""
        with self._changed:
            self._is_closed = True

    # --- by the clock ---

    def auto_commit(self, offsets: Callable[[], Offsets], now: float) -> float:
        """Commit in the background when it is due; returns when the next one is."""
        if not self._is_auto:
            return float("inf")
        if now >= self._due:
            self._due = now + self._interval
            self.commit_async(offsets())
        return self._due

    def commit_last(self, offsets: Callable[[], Offsets], deadline: Deadline) -> None:
        """With auto-commit: commit before partitions are given up; a failure is logged.

        It takes half of the time at most. What is on its way is waited for in any case.
        """
        last = offsets() if self._is_auto else {}
        try:
            half = deadline.share(1)
            self._await_queued(half)
            self.commit(last, half)
        except KafkaError as error:
            _log.warning("positions were not committed before giving partitions up: %s", error)

    # --- the other way ---

    def committed(self, tps: Sequence[TopicPartition], deadline: Deadline) -> Committed:
        """What the group has committed. Raises KafkaTimeout, NotAuthorized."""
        if not tps:
            return {}
        call = fetch_call(self._group_id, tps, self._identity, require_stable=self._require_stable)
        return self._router.ask(self._target, call, deadline, lane=_LANE)

    def _error(self, code: int, tp: TopicPartition, member: Identity) -> KafkaError:
        who = f"member {member.member_id!r} in generation {member.generation}"
        error = broker_error(
            code,
            f"committing {tp.topic}[{tp.partition}] for group {self._group_id!r} as {who}",
            group_id=self._group_id,
        )
        if isinstance(error, TopicNotFound):
            error.retriable = False  # the broker refuses what it cannot keep
        if isinstance(error, CommitFailed):
            error.retriable = code == STALE_MEMBER_EPOCH  # the next attempt has the new epoch
            error.args = (
                f"{error}: the group has moved on; {self._situation()}. This consumer joins "
                "again, and records since its last commit may come twice",
            )
        return error
