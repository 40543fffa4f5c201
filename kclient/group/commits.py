"""Commits of a group's offsets: on demand, in the background, and by the clock."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from kclient.cluster import Coordinator, Metadata, Router
from kclient.cluster.target import CoordinatorKind
from kclient.cluster.tasks import Tasks
from kclient.config import ConsumerOptions
from kclient.deadline import Deadline
from kclient.errors import CommitFailed, KafkaError, broker_error
from kclient.group.actions import Identity
from kclient.group.offsets import Committed, commit_call, fetch_call, ids_of
from kclient.types import OffsetAndMetadata, TopicPartition

_log = logging.getLogger(__name__)
_LANE = "commit"
Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Commits:
    """Commits and fetches the offsets of one group, in the name of its member if there is one."""

    def __init__(
        self,
        group_id: str,
        options: ConsumerOptions,
        router: Router,
        metadata: Metadata,
        identity: Callable[[], Identity],
        note: Callable[[Identity, int], None],
    ) -> None:
        """``note`` is told each answer's code, so that the membership can react."""
        self.failures = 0
        self.count = 0
        self._group_id = group_id
        self._router = router
        self._metadata = metadata
        self._identity = identity
        self._note = note
        self._tasks = Tasks(lambda: None)
        self._target = Coordinator(CoordinatorKind.GROUP, group_id)
        self._is_auto = options["enable_auto_commit"]
        self._interval = options["auto_commit_interval_ms"] / 1000
        self._seconds = options["default_api_timeout_ms"] / 1000
        self._require_stable = options["isolation_level"] == "read_committed"
        self._due = time.monotonic() + self._interval
        self._last: dict[TopicPartition, OffsetAndMetadata] = {}
        self._lock = threading.Lock()  # guards the two counts

    def commit(self, offsets: Offsets, deadline: Deadline) -> None:
        """Commit, and wait for it. Raises CommitFailed, NotAuthorized, KafkaTimeout."""
        if not offsets:
            return
        member = self._identity()
        topics = self._metadata.view.topics
        ids = ids_of(
            {tp.topic for tp in offsets}, {name: each.topic_id for name, each in topics.items()}
        )
        call = commit_call(self._group_id, member, offsets, ids)

        def read(answer: object) -> None:
            for tp, code in call.read(answer).items():  # type: ignore[arg-type]
                self._note(member, code)
                if code:
                    raise self._error(code, tp, member)

        checked = type(call)(call.api, call.build, read, call.at_most)  # type: ignore[arg-type]
        self._router.ask(self._target, checked, deadline, lane=_LANE)
        with self._lock:
            self.count += 1

    def commit_async(self, offsets: Offsets) -> None:
        """Commit in the background, after those before it; a failure is logged."""
        if not offsets:
            return
        wanted = dict(offsets)
        self._tasks.collect()
        if self._tasks.is_idle:
            self._tasks.start("commit", lambda: self._commit_quietly(wanted))
        else:  # one is on its way: the newer offsets follow it
            self._last = wanted

    def _commit_quietly(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        while offsets:
            try:
                self.commit(offsets, Deadline(self._seconds))
            except KafkaError as error:
                with self._lock:
                    self.failures += 1
                _log.warning("a commit in the background failed: %s", error)
            offsets, self._last = self._last, {}

    def auto_commit(self, offsets: Callable[[], Offsets], now: float) -> float:
        """Commit in the background when it is due; returns when the next one is."""
        if not self._is_auto:
            return float("inf")
        if now >= self._due:
            self._due = now + self._interval
            self.commit_async(offsets())
        return self._due

    def commit_last(self, offsets: Offsets, deadline: Deadline) -> None:
        """With auto-commit: commit before partitions are given up; a failure is logged."""
        if self._is_auto and offsets:
            try:
                self.commit(offsets, deadline)
            except KafkaError as error:
                _log.warning("positions were not committed before giving partitions up: %s", error)

    def committed(self, tps: Sequence[TopicPartition], deadline: Deadline) -> Committed:
        """What the group has committed. Raises KafkaTimeout, NotAuthorized."""
        if not tps:
            return {}
        call = fetch_call(
            self._group_id, tps, self._identity(), require_stable=self._require_stable
        )
        return self._router.ask(self._target, call, deadline, lane=_LANE)

    def _error(self, code: int, tp: TopicPartition, member: Identity) -> KafkaError:
        who = f"member {member.member_id!r} in generation {member.generation}"
        error = broker_error(
            code,
            f"committing {tp.topic}[{tp.partition}] for group {self._group_id!r} as {who}",
            group_id=self._group_id,
        )
        if isinstance(error, CommitFailed):
            error.retriable = False
            error.args = (
                f"{error}: the group has moved on; this consumer joins again, and records since "
                "its last commit may come twice",
            )
        return error
