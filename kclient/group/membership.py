"""A member of a group by the classic protocol: decides, and does nothing itself.

The steps are in `states.TABLE`, with their theory. Apart from the state there are four facts:
who coordinates, what the user owns (changed only by calls the user has seen through: `Revoke`,
`Lose`, `Assign`), the share that sync brought and the user has not yet been told of, and
whether what is owned is lost. `next` looks at these and answers with the one thing to do; it
changes nothing, so it may be asked at any time. Outcomes are told by the other methods; late
ones are ignored.

Two threads use it, the one that polls by `next` and the one that sends heartbeats by `tick`,
under one lock of the caller. Times are seconds of the caller's clock.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Iterable
from dataclasses import replace

from kclient._generated_codes import ERROR_CODES
from kclient.errors import BrokerError, KafkaError, ProtocolError, broker_error
from kclient.group import codes
from kclient.group.actions import (
    Action,
    Assign,
    Backoff,
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
from kclient.group.assignors import MemberSubscription, RebalanceProtocol, common_protocol
from kclient.group.assignors.interface import NO_GENERATION, PartitionsByTopic
from kclient.group.assignors.metadata import decode_assignment, decode_members, encode_assignment
from kclient.group.requests import (
    GroupSettings,
    Share,
    heartbeat_request,
    join_request,
    sync_request,
)
from kclient.group.states import TABLE, Event, State
from kclient.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kclient.protocol.messages.sync_group import SyncGroupResponse
from kclient.types import TopicPartition

log = logging.getLogger(__name__)


class Membership:
    """One member's part in one group. See the head of this module."""

    def __init__(self, settings: GroupSettings, rng: random.Random | None = None) -> None:
        self.state = State.LEFT
        self.coordinator: int | None = None
        """The node that coordinates the group, if known."""
        self.owned: frozenset[TopicPartition] = frozenset()
        """What the user has been told to read."""
        self.watched: frozenset[str] = frozenset()
        """The topics whose partitions this member watches: all of the group's if it leads."""
        self._settings = settings
        self._is_eager = common_protocol(settings.assignors) is RebalanceProtocol.EAGER
        self._topics: frozenset[str] = frozenset()
        self._reason = ""
        self._member_id = ""
        self._generation = NO_GENERATION
        self._protocol_name = ""
        self._members: dict[str, MemberSubscription] = {}
        self._shares: dict[str, bytes] = {}
        self._share: frozenset[TopicPartition] | None = None
        self._previous = Share()
        self._is_lost = False
        self._gave_up = False
        self._error: KafkaError | None = None
        self._backoff = Backoff(
            settings.retry_backoff_ms / 1000, settings.retry_backoff_max_ms / 1000, rng
        )
        self._heard = self._polled = self._next_beat = 0.0

    @property
    def identity(self) -> Identity:
        """What commits and heartbeats carry; generation -1 when not in one."""
        return Identity(self._member_id, self._generation, self._settings.group_instance_id)

    # --- what next ----------------------------------------------------------------------

    def next(self, now: float) -> Action:
        """The one thing for the polling thread to do."""
        return self._owed_call() or self._owed_request(now)

    def _owed_call(self) -> Call | None:
        if self._is_lost and self.owned:
            return Lose(tuple(sorted(self.owned)))
        if self._error is not None:
            return Fail(self._error)
        if self._share is not None:
            gone = self.owned - self._share
            added = self._share - self.owned
            return Revoke(tuple(sorted(gone))) if gone else Assign(tuple(sorted(added)))
        unwanted = sorted(self._unwanted())
        return Revoke(tuple(unwanted)) if unwanted else None

    def _unwanted(self) -> Iterable[TopicPartition]:
        """What has to be given up before leaving or joining, while it can be committed."""
        if self.state is State.LEAVING:
            return self.owned
        if self.state not in (State.OUTSIDE, State.MUST_JOIN) or self.coordinator is None:
            return ()
        return (tp for tp in self.owned if self._is_eager or tp.topic not in self._topics)

    def _owed_request(self, now: float) -> Action:
        if self.state is State.LEADING:
            topics = (topic for each in self._members.values() for topic in each.topics)
            return Spread(frozenset(topics))
        if self.state is State.LEFT or (self.state is State.LEAVING and not self._must_tell):
            return Wait(math.inf)
        if self.state is State.STABLE and self.coordinator is not None:
            return Ready(self._generation)
        if now < self._backoff.until:
            return Wait(self._backoff.until)
        if self.coordinator is None:
            return FindCoordinator()
        if self.state is State.JOINED:
            name, shares = self._protocol_name, self._shares
            return Sync(sync_request(self._settings, self.identity, name, shares))
        if self.state is State.LEAVING:
            return self._leave("the consumer unsubscribed or closed")
        return Join(self._join_request())

    def _join_request(self) -> JoinGroupRequest:
        subscription = MemberSubscription(
            topics=tuple(self._topics),
            owned=tuple(self.owned),
            # That of a join whose sync failed would make old claims look new.
            generation=self._previous.generation,
            rack=self._settings.client_rack,
        )
        return join_request(
            self._settings, subscription, self._previous, self._member_id, self._reason
        )

    def _leave(self, reason: str) -> Leave:
        return Leave(self._settings.group_id, self._member_id, reason)

    @property
    def _must_tell(self) -> bool:
        """Whether the coordinator knows the member, and not as one that will be back."""
        return bool(self._member_id) and self._settings.group_instance_id is None

    def tick(self, now: float) -> Tick:
        """The one thing for the heartbeat thread to do; notes what time has brought about.

        Not to be asked while a Join is on its way: that keeps the member alive by itself.
        """
        if self._generation == NO_GENERATION or self.state in (State.LEAVING, State.FENCED):
            return Wait(math.inf)
        if now - self._polled > self._settings.max_poll_interval_ms / 1000:
            return self._leave_for_silence(now)
        if now - self._heard > self._settings.session_timeout_ms / 1000:
            log.warning("%s: no answer to heartbeats for session_timeout_ms", self._settings.place)
            self.coordinator, self._heard = None, now
        if self.coordinator is None:
            return Wait(self._backoff.until) if now < self._backoff.until else FindCoordinator()
        if now < self._next_beat:
            return Wait(self._next_beat)
        self._next_beat = now + self._settings.heartbeat_interval_ms / 1000
        return Beat(heartbeat_request(self._settings, self.identity), self.identity)

    def _leave_for_silence(self, now: float) -> Tick:
        log.warning(
            "%s: no poll for more than max_poll_interval_ms=%d, so the partitions go to others; "
            "poll more often, process fewer records at a time, or raise it",
            self._settings.place,
            self._settings.max_poll_interval_ms,
        )
        why = "the consumer did not poll in time"
        leave = self._leave(why) if self._must_tell else Wait(math.inf)
        self._expel(why, now)
        return leave

    # --- what the user wants ------------------------------------------------------------

    def subscribe(self, topics: Iterable[str], now: float) -> None:
        """Read these topics from now on; a member joins again if they are others."""
        wanted = frozenset(topics)
        changed, self._topics = wanted != self._topics, wanted
        self.polled(now)
        if (self.state, Event.SUBSCRIBED) in TABLE:
            self._error = None
            self._go(Event.SUBSCRIBED)
        elif changed:
            self.rejoin("the subscription changed")

    def rejoin(self, reason: str) -> None:
        """Have the group rebalance: topics have other partitions, or the user asks for it."""
        if self.state is not State.MUST_JOIN:
            self._reason = reason
            self._go(Event.REBALANCE)

    def polled(self, now: float) -> None:
        """Note that the user has polled."""
        self._polled = now

    def unsubscribe(self) -> None:
        """Give all up and leave the group; `next` says how, until it waits for ever."""
        self._error = self._share = None
        self._go(Event.UNSUBSCRIBED)

    # --- outcomes -----------------------------------------------------------------------

    def done(self, call: Call) -> None:
        """The user has seen it through."""
        if isinstance(call, Fail):
            if self.state is not State.FENCED:
                self._error = None
                self._go(Event.RETRIED)
        elif isinstance(call, Assign):
            self.owned |= frozenset(call.partitions)
            if self._gave_up:
                self.rejoin("gave up partitions for others to take")
            self._share, self._gave_up = None, False
        else:
            self.owned -= frozenset(call.partitions)
            self._gave_up = isinstance(call, Revoke) and self._share is not None
            self._is_lost = self._is_lost and bool(self.owned)

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
        self._backoff.extend(now)

    def refused(self, error: KafkaError) -> None:
        """Asking failed for a reason that no retry would mend."""
        self._refuse(error)

    def joined(self, response: JoinGroupResponse, now: float) -> None:
        """The coordinator answered a Join."""
        if self.state not in (State.OUTSIDE, State.MUST_JOIN):
            return
        if response.error_code == codes.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
            self._go(Event.NAMED)
        elif response.error_code:
            if response.error_code == codes.REBALANCE_IN_PROGRESS:
                self._backoff.extend(now)
            self._handle(response.error_code, "JoinGroup", now)
        elif response.protocol_name not in {each.name for each in self._settings.assignors}:
            name = response.protocol_name
            self._refuse(
                ProtocolError(f"{self._settings.place} uses assignor {name!r}, not offered")
            )
        else:
            self._enter(response, now)

    def _enter(self, response: JoinGroupResponse, now: float) -> None:
        self._member_id, self._generation = response.member_id, response.generation_id
        self._protocol_name = response.protocol_name or ""
        self._is_lost = self._is_lost and bool(self.owned)
        self._heard, self._next_beat = now, now + self._settings.heartbeat_interval_ms / 1000
        self._backoff.clear()
        self._shares, self._reason = {}, ""
        leads = response.leader == response.member_id
        self._members = decode_members(response.members) if leads else {}
        others = (topic for each in self._members.values() for topic in each.topics)
        self.watched = self._topics.union(others)
        # A static leader that is back is told to leave things as they are (KIP-814).
        self._go(Event.ELECTED if leads and not response.skip_assignment else Event.ADMITTED)

    def spread(self, partitions: PartitionsByTopic) -> None:
        """What the topics of a `Spread` have; topics that do not exist are left out."""
        if self.state is State.LEADING:
            assignor = next(o for o in self._settings.assignors if o.name == self._protocol_name)
            assignment = assignor.assign(partitions, self._members)
            self._shares = {one: encode_assignment(taken) for one, taken in assignment.items()}
            self._go(Event.SPREAD)

    def synced(self, response: SyncGroupResponse, now: float) -> None:
        """The coordinator answered a Sync."""
        if self.state is not State.JOINED:
            return
        if response.error_code:
            self._handle(response.error_code, "SyncGroup", now)
            return
        try:
            share = decode_assignment(response.assignment)
        except ProtocolError as error:
            self._refuse(error)
            return
        self._heard = now
        self._backoff.clear()
        self._previous = Share(share, self._generation)
        # A leader with an old picture may send what is no longer wanted.
        self._share = frozenset(tp for tp in share if tp.topic in self._topics)
        self._gave_up = False
        self._go(Event.SYNCED)

    def answered(self, identity: Identity, code: int, now: float) -> None:
        """The coordinator answered a heartbeat or a commit that carried ``identity``."""
        if identity != self.identity or self._generation == NO_GENERATION:
            return
        self._heard = now
        if code == codes.REBALANCE_IN_PROGRESS:
            if self.state is State.STABLE:  # else it is on its way already
                self.rejoin("the group rebalances")
        elif code:
            self._handle(code, "Heartbeat or OffsetCommit", now)

    def left(self) -> None:
        """A Leave was sent, or is not worth the wait; what was not given up by then is lost."""
        if self.state is State.LEAVING:
            self._forget()
            self._member_id = ""
            self._is_lost = bool(self.owned)
            self._go(Event.TOLD)

    # --- steps --------------------------------------------------------------------------

    def _go(self, event: Event) -> None:
        self.state = TABLE.get((self.state, event), self.state)

    def _handle(self, code: int, what: str, now: float) -> None:
        """What an error code of the coordinator means."""
        if code in (codes.UNKNOWN_MEMBER_ID, codes.ILLEGAL_GENERATION):
            self._expel(f"{what} answered {ERROR_CODES[code][0]}", now, code)
        elif code == codes.REBALANCE_IN_PROGRESS:
            self.rejoin("the group rebalances")
        elif code == codes.FENCED_INSTANCE_ID:
            self._replace(what, now)
        elif code == codes.INVALID_SESSION_TIMEOUT and self._lower_session_timeout():
            pass
        elif code in (codes.NOT_COORDINATOR, codes.COORDINATOR_NOT_AVAILABLE):
            self.unreachable(now)
        elif broker_error(code, "").retriable:
            self._backoff.extend(now)
        else:
            advice = codes.ADVICE.get(code, "")
            self._refuse(broker_error(code, f"{what} of {self._settings.place}{advice}"))

    def _lower_session_timeout(self) -> bool:
        asked = self._settings.session_timeout_ms
        if asked <= codes.OLD_SESSION_LIMIT_MS:
            return False
        log.warning(
            "%s: the broker refused session_timeout_ms=%d; trying %d, the most Kafka 0.9 allows",
            self._settings.place,
            asked,
            codes.OLD_SESSION_LIMIT_MS,
        )
        self._settings = replace(self._settings, session_timeout_ms=codes.OLD_SESSION_LIMIT_MS)
        return True

    def _expel(self, why: str, now: float, code: int = codes.UNKNOWN_MEMBER_ID) -> None:
        log.info("%s: out of generation %d: %s", self._settings.place, self._generation, why)
        if not self._member_id:
            self._backoff.extend(now)  # a newcomer cannot be unknown: do not ask in a loop
        if code != codes.ILLEGAL_GENERATION:
            self._member_id = ""
        self._forget()
        self._is_lost, self._reason = True, why
        self._go(Event.EXPELLED)

    def _forget(self) -> None:
        self._generation = NO_GENERATION
        self._members, self._shares, self._share = {}, {}, None
        self._gave_up = False

    def _refuse(self, error: KafkaError) -> None:
        if (self.state, Event.REFUSED) in TABLE:
            self._error = error
            self._go(Event.REFUSED)

    def _replace(self, what: str, now: float) -> None:
        self._expel(f"{what} answered FENCED_INSTANCE_ID", now)
        if (self.state, Event.REPLACED) in TABLE:
            code, place = codes.FENCED_INSTANCE_ID, self._settings.place
            message = f"{what} of {place}: FENCED_INSTANCE_ID (error {code}){codes.ADVICE[code]}"
            self._error = BrokerError(message, code)
            self._go(Event.REPLACED)
