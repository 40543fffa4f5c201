"""A member by the consumer protocol (KIP-848): performs what the ``ConsumerMembership`` decides.

The heartbeat thread does all the asking; the thread that polls runs the callbacks, and starts
the errand that looks up names of topics, which the coordinator knows by their ids.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable

from kclient.cluster import ClusterView, Metadata
from kclient.cluster.tasks import Tasks
from kclient.config import ConsumerOptions
from kclient.deadline import Deadline
from kclient.errors import KafkaError, UnsupportedVersion
from kclient.group.actions import (
    Assign,
    Call,
    ConsumerBeat,
    Fail,
    FindCoordinator,
    Identity,
    Lose,
    NameTopics,
    Revoke,
    Wait,
)
from kclient.group.alone import NOBODY
from kclient.group.consumer_membership import ConsumerGroupSettings, ConsumerMembership
from kclient.group.consumer_states import ConsumerState
from kclient.group.heartbeat import Heartbeat
from kclient.group.link import HEARTBEAT_LANE, CoordinatorLink
from kclient.group.member import FAR
from kclient.group.subscription import Subscription
from kclient.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

_log = logging.getLogger(__name__)
_NAMES = "names"
_ASK_AGAIN = 0.5  # seconds between lookups of names that brokers do not know yet


class ConsumerProtocolMember:
    """See ``Member`` and the module."""

    def __init__(
        self,
        options: ConsumerOptions,
        link: CoordinatorLink,
        metadata: Metadata,
        wake: Callable[[], None],
        heartbeat: Heartbeat,
    ) -> None:
        """``wake`` has the user's thread call ``step``."""
        self._link = link
        self._metadata = metadata
        self._wake = wake
        self._heartbeat = heartbeat
        self._tasks = Tasks(wake)
        self._instance_id = options["group_instance_id"]
        self._subscription = Subscription()
        self._changed = threading.Condition()  # guards the membership and the one below
        self._membership = ConsumerMembership(settings_of(options), str(uuid.uuid4()))
        self._refusal: KafkaError | None = None
        self._names_not_before = 0.0

    @property
    def identity(self) -> Identity:
        """Who commits."""
        with self._changed:
            membership = self._membership
            if membership.epoch <= 0:
                return NOBODY
            return Identity(membership.member_id, membership.epoch, self._instance_id)

    @property
    def is_known(self) -> bool:
        """Whether the coordinator may know this member."""
        return self._link.endpoint is not None

    def subscribe(self, subscription: Subscription, now: float) -> None:
        """Read these topics from now on; a pattern is matched by the coordinator."""
        self._subscription = subscription
        pattern = subscription.pattern.pattern if subscription.pattern else None
        with self._changed:
            self._membership.subscribe(() if pattern else subscription.topics, now, pattern)
        self._heartbeat.start()
        self._heartbeat.nudge()

    def look(self, view: ClusterView) -> None:
        """The coordinator looks after the topics."""

    def polled(self, now: float) -> None:
        """The user is alive."""
        with self._changed:
            self._membership.polled(now)

    def step(self, now: float) -> Call | float:
        """What the user has to see through next; else when to look again."""
        for _, result in self._tasks.collect():
            if isinstance(result, KafkaError) and not result.retriable:
                raise result
        with self._changed:
            if self._refusal is not None:
                return Fail(self._refusal)
            action = self._membership.next(now)
        if isinstance(action, (Revoke, Lose, Assign, Fail)):
            return action
        if isinstance(action, NameTopics):
            if now < self._names_not_before:
                return self._names_not_before
            self._names_not_before = now + _ASK_AGAIN
            self._tasks.start(_NAMES, self._name_topics)
        return FAR

    def done(self, call: Call) -> None:
        """The user has seen it through."""
        with self._changed:
            if isinstance(call, Fail) and call.error is self._refusal:
                self._refusal = None
            else:
                self._membership.done(call)
        self._heartbeat.nudge()

    def note_code(self, identity: Identity, code: int) -> None:
        """The coordinator answered a commit; refused, it is asked at once how we stand."""
        if code:
            with self._changed:
                self._membership.doubt()
            self._heartbeat.nudge()

    def _name_topics(self) -> None:
        wanted = None if self._subscription.pattern else self._subscription.topics
        view = self._metadata.refresh(Deadline(self._link.seconds), wanted)
        with self._changed:
            self._membership.named(view.names)

    # --- the heartbeat thread ---

    def beat(self) -> float:
        """Tell the coordinator what it has to hear; when to do so again."""
        now = time.monotonic()
        with self._changed:
            if self._refusal is not None:
                return FAR
            tick = self._membership.tick(now)
        if isinstance(tick, Wait):
            return tick.until
        try:
            self._perform(tick)
        except KafkaError as error:
            self._note_failure(error)
        self._wake()
        return now

    def _perform(self, tick: ConsumerBeat | FindCoordinator) -> None:
        deadline = Deadline(self._link.seconds)
        if isinstance(tick, FindCoordinator):
            node = self._link.find(deadline)
            with self._changed:
                self._membership.found(node)
            return
        answer = self._link.ask(
            tick.request, ConsumerGroupHeartbeatResponse, HEARTBEAT_LANE, deadline
        )
        with self._changed:
            self._membership.answered(tick.request, answer, time.monotonic())
            self._changed.notify_all()

    def _note_failure(self, error: KafkaError) -> None:
        self._link.forget(error)
        with self._changed:
            if self._membership.state is ConsumerState.LEAVING:
                self._membership.left()  # not worth the wait
            elif error.retriable:
                _log.info("the coordinator was not reached: %s", error)
                self._membership.unreachable(time.monotonic())
            else:
                self._refusal = _explained(error)
            self._changed.notify_all()

    # --- the end ---

    def unsubscribe(self) -> None:
        """Give everything up."""
        with self._changed:
            self._refusal = None
            self._membership.unsubscribe()

    def leave(self, deadline: Deadline) -> None:
        """Have the heartbeat thread tell the coordinator, and wait for that."""
        self._heartbeat.nudge()
        with self._changed:
            if not self._changed.wait_for(self._has_left, deadline.left()):
                _log.info("the coordinator did not answer that this member leaves")
                self._membership.left()

    def _has_left(self) -> bool:
        return self._membership.state in (ConsumerState.LEFT, ConsumerState.FENCED)


def _explained(error: KafkaError) -> KafkaError:
    """Say what to do where the broker does not speak the protocol."""
    if isinstance(error, UnsupportedVersion):
        return UnsupportedVersion(
            f"group_protocol='consumer' needs brokers of Kafka 4.0 or later: {error}; "
            "use group_protocol='classic'"
        )
    return error


def settings_of(options: ConsumerOptions) -> ConsumerGroupSettings:
    """The options that matter to a membership."""
    return ConsumerGroupSettings(
        group_id=options["group_id"] or "",
        max_poll_interval_ms=options["max_poll_interval_ms"],
        group_instance_id=options["group_instance_id"],
        group_remote_assignor=options["group_remote_assignor"],
        client_rack=options["client_rack"] or None,
        retry_backoff_ms=options["retry_backoff_ms"],
        retry_backoff_max_ms=options["retry_backoff_max_ms"],
    )
