"""A member of a group by the consumer protocol (KIP-848): decides, and does nothing itself.

The steps are in `consumer_states.CONSUMER_TABLE`, with their theory. Only what
has changed is sent; all of it when joining, and after anything that leaves in doubt what the
coordinator knows. As in the classic `Membership`, `next` is for the thread that polls and
changes nothing, `tick` is for the one that sends, under one lock of the caller; what is owned
changes only by calls that the user has seen through. Times are seconds.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from kclient._generated_codes import ERROR_CODES
from kclient.errors import KafkaError, broker_error
from kclient.group import codes
from kclient.group.actions import (
    Assign,
    Backoff,
    Call,
    ConsumerBeat,
    Fail,
    FindCoordinator,
    Lose,
    NameTopics,
    Ready,
    Revoke,
    Wait,
)
from kclient.group.consumer_states import CONSUMER_TABLE, ConsumerEvent, ConsumerState
from kclient.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
    ResponseTopicPartitions,
)
from kclient.types import TopicPartition

log = logging.getLogger(__name__)

JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH = 0, -1, -2

Place = tuple[UUID, int]
"""A partition as the coordinator knows it: the topic's id, and the number."""
_LIVE = (ConsumerState.JOINING, ConsumerState.MEMBER)


@dataclass(frozen=True)
class ConsumerGroupSettings:
    """The options that matter to a membership, as in Kafka."""

    group_id: str
    max_poll_interval_ms: int = 300_000
    group_instance_id: str | None = None
    group_remote_assignor: str | None = None
    client_rack: str | None = None
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000


@dataclass(frozen=True)
class _Told:
    """What the coordinator has accepted and need not be told again; None if in doubt."""

    topics: frozenset[str] | None = None
    pattern: str | None = None
    owned: frozenset[Place] | None = None


class ConsumerMembership:
    """One member's part in one group. See the head of this module."""

    def __init__(
        self,
        settings: ConsumerGroupSettings,
        member_id: str,
        rng: random.Random | None = None,
    ) -> None:
        """``member_id`` is any unique string; empty for brokers before 4.0, which give one."""
        self.state = ConsumerState.LEFT
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self.coordinator: int | None = None
        """The node that coordinates the group, if known."""
        self._settings = settings
        self._topics: frozenset[str] = frozenset()
        self._pattern: str | None = None
        self._owned: dict[TopicPartition, UUID] = {}
        self._target: frozenset[Place] | None = None
        self._names: dict[UUID, str] = {}
        self._told = _Told()
        self._is_lost = False
        self._error: KafkaError | None = None
        self._backoff = Backoff(
            settings.retry_backoff_ms / 1000, settings.retry_backoff_max_ms / 1000, rng
        )
        self._polled = self._next_beat = 0.0

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """What the user has been told to read."""
        return frozenset(self._owned)

    # --- what next ----------------------------------------------------------------------

    def next(self, now: float) -> Call | NameTopics | Ready | Wait:
        """The one thing for the polling thread to do; what is to be sent, `tick` says."""
        if self._is_lost and self._owned:
            return Lose(tuple(sorted(self._owned)))
        if self._error is not None:
            return Fail(self._error)
        if gone := self._to_give_up():
            return Revoke(tuple(sorted(gone)))
        if self.state is not ConsumerState.MEMBER:
            return Wait(math.inf)
        if added := self._to_take():
            return Assign(tuple(sorted(added)))
        if unknown := {place[0] for place in self._target or ()} - self._names.keys():
            return NameTopics(frozenset(unknown))
        return Ready(self.epoch)

    def _to_give_up(self) -> set[TopicPartition]:
        if self.state is ConsumerState.LEAVING:
            return set(self._owned)
        if self._target is None:
            return set()
        return {
            tp for tp, topic in self._owned.items() if (topic, tp.partition) not in self._target
        }

    def _to_take(self) -> dict[TopicPartition, UUID]:
        return {
            TopicPartition(self._names[topic], partition): topic
            for topic, partition in self._target or ()
            if topic in self._names
            and TopicPartition(self._names[topic], partition) not in self._owned
        }

    def tick(self, now: float) -> ConsumerBeat | FindCoordinator | Wait:
        """The one thing for the sending thread to do; notes what time has brought about.

        Not to be asked again before the answer to a heartbeat was handed in, or it got none.
        """
        if self.state in (ConsumerState.LEFT, ConsumerState.FENCED):
            return Wait(math.inf)
        if self._is_overdue(now):
            if self.state is not ConsumerState.MEMBER:
                return Wait(math.inf)  # until the user polls again
            beat = ConsumerBeat(self._leave_request())
            self._leave_for_silence()
            return beat if self.coordinator is not None else Wait(math.inf)
        if now < self._backoff.until:
            return Wait(self._backoff.until)
        if self.coordinator is None:
            return FindCoordinator()
        if now < self._next_beat and not self._is_urgent():
            return Wait(self._next_beat)
        # Until the answer says when the next is due, a lost one is repeated after a while.
        self._next_beat = now + self._settings.retry_backoff_max_ms / 1000
        leaves = self.state is ConsumerState.LEAVING and not self._owned
        return ConsumerBeat(self._leave_request() if leaves else self._request())

    def _is_overdue(self, now: float) -> bool:
        return (
            self.state is not ConsumerState.LEAVING
            and now - self._polled > self._settings.max_poll_interval_ms / 1000
        )

    def _is_urgent(self) -> bool:
        """Whether there is news; while the user is in a call, it is not complete yet."""
        if self.state is ConsumerState.LEAVING:
            return not self._owned
        if self.state is ConsumerState.JOINING:
            return True
        said = self._told
        in_call = bool(self._to_give_up() or self._to_take())
        return (self._topics, self._pattern) != (said.topics, said.pattern) or (
            self._places() != said.owned and not in_call
        )

    def _leave_for_silence(self) -> None:
        log.warning(
            "group %s: no poll for more than max_poll_interval_ms=%d, so the partitions go to "
            "others; poll more often, process fewer records at a time, or raise it",
            self._settings.group_id,
            self._settings.max_poll_interval_ms,
        )
        self._expel("the consumer did not poll in time")

    # --- requests -----------------------------------------------------------------------

    def _places(self) -> frozenset[Place]:
        return frozenset((topic, tp.partition) for tp, topic in self._owned.items())

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        joins = self.epoch == JOIN_EPOCH
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self._settings.group_instance_id,
        )
        if joins or self._told.topics is None:
            request.rack_id = self._settings.client_rack
            request.rebalance_timeout_ms = self._settings.max_poll_interval_ms
            request.server_assignor = self._settings.group_remote_assignor
        if self._pattern != self._told.pattern:
            request.subscribed_topic_regex = self._pattern or ""
        if self._topics != self._told.topics:
            request.subscribed_topic_names = sorted(self._topics)
        if joins or self._places() != self._told.owned:
            request.topic_partitions = _by_topic(() if joins else self._places())
        return request

    def _leave_request(self) -> ConsumerGroupHeartbeatRequest:
        is_static = self._settings.group_instance_id is not None
        return ConsumerGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self.member_id,
            member_epoch=STATIC_LEAVE_EPOCH if is_static else LEAVE_EPOCH,
            instance_id=self._settings.group_instance_id,
        )

    # --- what the user wants ------------------------------------------------------------

    def subscribe(self, topics: Iterable[str], now: float, pattern: str | None = None) -> None:
        """Read these topics, and those that match an RE2 ``pattern`` at the broker, from now on."""
        self._topics, self._pattern = frozenset(topics), pattern
        self.polled(now)
        if self.state is ConsumerState.LEAVING:
            self._forget()
        self._go(ConsumerEvent.SUBSCRIBED)

    def polled(self, now: float) -> None:
        """Note that the user has polled."""
        self._polled = now

    def unsubscribe(self) -> None:
        """Give all up and leave the group, by calls of `next` and what `tick` says."""
        self._error = self._target = None
        self._go(ConsumerEvent.UNSUBSCRIBED)

    # --- outcomes -----------------------------------------------------------------------

    def done(self, call: Call) -> None:
        """The user has seen it through."""
        if isinstance(call, Fail):
            if self.state is not ConsumerState.FENCED:
                self._error = None
        elif isinstance(call, Assign):
            ids = {name: topic for topic, name in self._names.items()}
            self._owned.update((tp, ids[tp.topic]) for tp in call.partitions)
        else:
            for tp in call.partitions:
                self._owned.pop(tp, None)
            self._is_lost = self._is_lost and bool(self._owned)

    def named(self, names: Mapping[UUID, str]) -> None:
        """What topics are called; those that metadata does not have yet are asked for again."""
        self._names.update(names)

    def found(self, node: int) -> None:
        """A broker said who coordinates."""
        self.coordinator = node
        self._backoff.clear()

    def not_found(self, code: int, now: float) -> None:
        """A broker could not say who coordinates."""
        self.coordinator = None
        self._handle(code, "FindCoordinator", now)

    def unreachable(self, now: float) -> None:
        """The coordinator, or any broker, could not be asked or did not answer."""
        self.coordinator = None
        self._told = _Told(pattern=self._told.pattern)
        self._backoff.extend(now)

    def doubt(self) -> None:
        """A commit was refused: have the next heartbeat tell at once how we stand."""
        self._next_beat = 0.0

    def answered(
        self,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        now: float,
    ) -> None:
        """The coordinator answered a heartbeat."""
        if request.member_epoch < JOIN_EPOCH:
            self.left()
        elif (
            self.state not in (*_LIVE, ConsumerState.LEAVING) or request.member_epoch != self.epoch
        ):
            return
        elif response.error_code:
            self._told = _Told(pattern=self._told.pattern)
            self._handle(response.error_code, "ConsumerGroupHeartbeat", now, response.error_message)
        else:
            self._accept(request, response, now)

    def _accept(
        self,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        now: float,
    ) -> None:
        self._backoff.clear()
        self._next_beat = now + response.heartbeat_interval_ms / 1000
        self.member_id = response.member_id or self.member_id
        self.epoch = response.member_epoch
        if self.state is ConsumerState.JOINING:
            self._is_lost = self._is_lost and bool(self._owned)
        self._told = _Told(
            self._told.topics
            if request.subscribed_topic_names is None
            else frozenset(request.subscribed_topic_names),
            self._told.pattern
            if request.subscribed_topic_regex is None
            else request.subscribed_topic_regex or None,
            self._told.owned
            if request.topic_partitions is None
            else _places_in(request.topic_partitions),
        )
        if response.assignment is not None and self.state is not ConsumerState.LEAVING:
            self._target = _places_in(response.assignment.topic_partitions)
        self._go(ConsumerEvent.ADMITTED)

    def left(self) -> None:
        """A leave was sent, or is not worth the wait; what was not given up by then is lost."""
        if self.state is ConsumerState.LEAVING:
            self._forget()
            self._go(ConsumerEvent.TOLD)

    # --- steps --------------------------------------------------------------------------

    def _go(self, event: ConsumerEvent) -> None:
        self.state = CONSUMER_TABLE.get((self.state, event), self.state)

    def _handle(self, code: int, what: str, now: float, detail: str | None = None) -> None:
        """What an error code of the coordinator means."""
        place = f"group {self._settings.group_id!r}"
        said = f" ({detail})" if detail else ""
        message = f"{what} of {place}{said}{codes.ADVICE.get(code, '')}"
        if code in (codes.UNKNOWN_MEMBER_ID, codes.FENCED_MEMBER_EPOCH):
            if self.epoch == JOIN_EPOCH:
                self._backoff.extend(now)  # a newcomer cannot be unknown: do not ask in a loop
            self._expel(f"{what} answered {ERROR_CODES[code][0]}")
        elif code in (codes.NOT_COORDINATOR, codes.COORDINATOR_NOT_AVAILABLE):
            self.unreachable(now)
        elif broker_error(code, "").retriable:
            self._backoff.extend(now)
        elif self.state in _LIVE:
            self._error = broker_error(code, message)
            self._backoff.extend(now)
            if code == codes.FENCED_INSTANCE_ID:
                self._expel(f"{what} answered FENCED_INSTANCE_ID")
                self._go(ConsumerEvent.REPLACED)

    def _expel(self, why: str) -> None:
        log.info("group %s: out at epoch %d: %s", self._settings.group_id, self.epoch, why)
        self._forget()
        self._go(ConsumerEvent.EXPELLED)

    def _forget(self) -> None:
        self.epoch, self._target, self._told = JOIN_EPOCH, None, _Told()
        self._is_lost = True


def _by_topic(places: Iterable[Place]) -> list[RequestTopicPartitions]:
    grouped: dict[UUID, list[int]] = {}
    for topic, partition in sorted(places):
        grouped.setdefault(topic, []).append(partition)
    return [RequestTopicPartitions(topic_id=each, partitions=of) for each, of in grouped.items()]


def _places_in(
    topics: Iterable[RequestTopicPartitions | ResponseTopicPartitions],
) -> frozenset[Place]:
    return frozenset((each.topic_id, number) for each in topics for number in each.partitions)
