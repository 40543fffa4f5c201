"""Requests to the right broker: found, sent, retried, all within one deadline."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar, cast

from kclient.cluster.call import Call
from kclient.cluster.metadata import LANE, TOPIC_GRACE, UNKNOWN_TOPIC, Metadata
from kclient.cluster.retry import Backoff, retry
from kclient.cluster.target import (
    Anywhere,
    Controller,
    Coordinator,
    CoordinatorKind,
    Leader,
    Node,
    Target,
)
from kclient.config import ClientOptions
from kclient.deadline import Deadline
from kclient.errors import (
    BrokerError,
    KafkaError,
    KafkaTimeout,
    TopicNotFound,
    TransportError,
    UnsupportedVersion,
    broker_error,
)
from kclient.net.connection import Connection
from kclient.net.endpoint import Endpoint
from kclient.net.pool import Pool
from kclient.protocol.messages.find_coordinator import Coordinator as Row
from kclient.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kclient.protocol.since import FIRST_KAFKA
from kclient.protocol.wire import Message
from kclient.types import TopicPartition

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
_LEADER_NOT_AVAILABLE = 5
_MOVED = (15, 16, 41)  # COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, NOT_CONTROLLER


class AbsentBroker(TransportError):
    """No broker of that node id is part of the cluster, at least for now."""


class _OldHungUp(TransportError):
    """A Kafka 0.8 hung up on a request that not every 0.8 knows."""


_ABSENT = (TopicNotFound, AbsentBroker)


class Router:
    """Finds brokers and asks them. Safe for many threads."""

    def __init__(self, options: ClientOptions, pool: Pool, metadata: Metadata) -> None:
        self._pool = pool
        self._metadata = metadata
        self._backoff = Backoff(options)
        self._request_seconds = options["request_timeout_ms"] / 1000
        self._lock = threading.Lock()  # guards the one below
        self._coordinators: dict[tuple[CoordinatorKind, str], Endpoint] = {}

    def ask(self, target: Target, call: Call[T], deadline: Deadline, *, lane: str = "admin") -> T:
        """Ask the broker that ``target`` names; again, elsewhere if need be, until it answers.

        Raises KafkaTimeout with the last error as its cause, or the error that is final.
        """

        def attempt() -> T:
            if isinstance(target, Anywhere):
                return self._ask_any(call, deadline, lane)
            return self._ask_one(self.locate(target, deadline), call, deadline, lane)

        what = f"{call.api.__name__.removesuffix('Request')} to {target}"
        return retry(
            attempt, what, deadline, self._backoff, lambda error: self.forget(target, error)
        )

    def ask_each(
        self, calls: Mapping[Endpoint, Call[T]], deadline: Deadline, *, lane: str = "admin"
    ) -> dict[Endpoint, T | KafkaError]:
        """Ask several brokers at once, each its own question, once.

        All questions leave before the first answer is awaited.
        """
        results: dict[Endpoint, T | KafkaError] = {}
        with contextlib.ExitStack() as stack:
            asked: dict[Endpoint, Connection] = {}
            nodes: set[int] = set()
            # Always in this order, so that threads cannot lock each other up.
            for count, endpoint in enumerate(sorted(calls, key=lambda each: each[:3]), 1):
                try:
                    if endpoint.node in nodes:
                        raise TransportError(f"broker {endpoint.node} moves; ask again")
                    nodes.add(endpoint.node)
                    limit = deadline.share(len(calls) - count)
                    connection = stack.enter_context(self._pool.lease(endpoint, lane, limit))
                    call = calls[endpoint]
                    version = _version(call, connection)
                    connection.send(call.build(version), limit, version=version)
                    asked[endpoint] = connection
                except KafkaError as error:
                    results[endpoint] = error
            for endpoint, connection in asked.items():
                try:
                    answer = self._receive(connection, deadline)
                    results[endpoint] = calls[endpoint].read(answer)
                except KafkaError as error:
                    results[endpoint] = error
        return results

    def _receive(self, connection: Connection, deadline: Deadline) -> Message:
        return connection.decode(connection.receive(deadline.within(self._request_seconds)))

    def gather(
        self,
        items: Iterable[K],
        target: Callable[[K], Target],
        call: Callable[[Sequence[K]], Call[Mapping[K, T | KafkaError]]],
        deadline: Deadline,
        *,
        lane: str = "admin",
        grace: float = TOPIC_GRACE,
        attempts: int | None = None,
    ) -> dict[K, T | KafkaError]:
        """Ask about many items, those of one broker in one request; failed ones again.

        ``call`` makes the request for some items, and its answer tells of each. Errors that
        are final, or last when the time is over or after so many ``attempts``, are among the
        results. A topic that is not found may still turn up for ``grace`` seconds.
        """
        results: dict[K, T | KafkaError] = {}
        pending, failures = list(items), 0
        patience = time.monotonic() + grace
        while pending:
            if failures:
                wait = self._backoff.seconds(failures)
                if wait >= deadline.left() or failures == attempts:
                    break
                time.sleep(wait)
            failures += 1
            for item, told in self._gather_once(pending, target, call, deadline, lane).items():
                # That the time ran out says less than why it was needed.
                if item not in results or deadline.left() or not isinstance(told, KafkaTimeout):
                    results[item] = told
            pending = [item for item in pending if _is_retriable(results[item])]
            for item in pending:
                error = results[item]
                self.forget(target(item), error)
                if isinstance(error, _ABSENT) and time.monotonic() > patience:
                    error.retriable = False
            pending = [item for item in pending if _is_retriable(results[item])]
        return results

    def _gather_once(
        self,
        items: Sequence[K],
        target: Callable[[K], Target],
        call: Callable[[Sequence[K]], Call[Mapping[K, T | KafkaError]]],
        deadline: Deadline,
        lane: str,
    ) -> dict[K, T | KafkaError]:
        results: dict[K, T | KafkaError] = {}
        groups: dict[Endpoint, list[K]] = {}
        try:
            places = self._locate_all({target(item) for item in items}, deadline)
        except KafkaError as error:
            return dict.fromkeys(items, error)
        for item in items:
            place = places[target(item)]
            if isinstance(place, KafkaError):
                results[item] = place
            else:
                groups.setdefault(place, []).append(item)
        calls = {endpoint: call(group) for endpoint, group in groups.items()}
        for endpoint, answer in self.ask_each(calls, deadline, lane=lane).items():
            if isinstance(answer, KafkaError):
                results.update(dict.fromkeys(groups[endpoint], answer))
            else:
                missing = TransportError(f"{endpoint} left this item out of its answer")
                results.update({item: answer.get(item, missing) for item in groups[endpoint]})
        return results

    def _locate_all(
        self, targets: Collection[Target], deadline: Deadline
    ) -> dict[Target, Endpoint | KafkaError]:
        """Where each target is, or why not; what is unknown is asked for together."""
        places: dict[Target, Endpoint | KafkaError] = {}
        lost = self._locate_coordinators(targets, deadline)
        self._learn_topics([each.tp for each in targets if isinstance(each, Leader)], deadline)
        for each in targets:
            try:
                if each in lost:
                    raise lost[each]
                places[each] = (
                    self._known_leader(each.tp)
                    if isinstance(each, Leader)
                    else self.locate(each, deadline)
                )
            except KafkaError as error:
                places[each] = error
        return places

    # --- finding brokers ---

    def locate(self, target: Target, deadline: Deadline) -> Endpoint:
        """The broker that ``target`` names, by what is known or after asking.

        Raises a retriable error if there is none at the moment.
        """
        if isinstance(target, Leader):
            return self._leader(target.tp, deadline)
        if isinstance(target, Coordinator):
            return self._coordinator(target, deadline)
        brokers = self._metadata.brokers(deadline)
        if isinstance(target, Node):
            if target.node not in brokers:
                self._metadata.mark_stale()
                raise AbsentBroker(
                    f"broker {target.node} is not part of the cluster now; known are "
                    f"{sorted(brokers)}",
                    node=target.node,
                )
            return brokers[target.node]
        controller = brokers.get(self._metadata.view.controller)
        if isinstance(target, Controller) and controller is not None:
            return controller
        return self._metadata.candidates()[0]

    def _ask_any(self, call: Call[T], deadline: Deadline, lane: str) -> T:
        candidates = self._metadata.candidates()
        for count, endpoint in enumerate(candidates, 1):
            try:
                limit = deadline.share(len(candidates) - count)
                return self._ask_one(endpoint, call, limit, lane)
            except (TransportError, KafkaTimeout) as error:
                if count == len(candidates) or deadline.is_over:
                    if isinstance(error, _OldHungUp):  # and no other broker has answered
                        raise UnsupportedVersion(str(error)) from error
                    raise
        raise TransportError("no broker is known")

    def _ask_one(self, endpoint: Endpoint, call: Call[T], deadline: Deadline, lane: str) -> T:
        with self._pool.lease(endpoint, lane, deadline) as connection:
            version = _version(call, connection)
            limit = deadline.within(self._request_seconds)
            try:
                answer = connection.ask(call.build(version), version, limit)
            except TransportError as error:
                if connection.versions.may_lack(call.api):
                    raise _OldHungUp(_too_old(call.api, error)) from error
                raise
        return call.read(answer)

    def _leader(self, tp: TopicPartition, deadline: Deadline) -> Endpoint:
        self._metadata.topic(tp.topic, deadline)
        return self._known_leader(tp)

    def _learn_topics(self, tps: Sequence[TopicPartition], deadline: Deadline) -> None:
        """Have the metadata know these topics, all by one request."""
        view = self._metadata.view
        unknown = {tp.topic for tp in tps if view.leader(tp) is None}
        if unknown or (tps and self._metadata.is_old):
            self._metadata.refresh(deadline, unknown)

    def _known_leader(self, tp: TopicPartition) -> Endpoint:
        leader = self._metadata.leader(tp.topic, tp.partition)
        if leader is not None:
            return leader
        self._metadata.mark_stale()
        topic = self._metadata.view.topics.get(tp.topic)
        code = UNKNOWN_TOPIC if topic is None else topic.error_code
        if topic is None or code:
            raise broker_error(
                code,
                f"topic {tp.topic!r} cannot be used; check its name, that it exists "
                "(Admin.create_topic), and this user's rights",
                topic=tp.topic,
            )
        if tp.partition not in topic.partitions:
            known = f"it has {len(topic.partitions)}, from 0"
            raise broker_error(
                UNKNOWN_TOPIC, f"topic {tp.topic!r} has no partition {tp.partition}: {known}"
            )
        raise broker_error(
            _LEADER_NOT_AVAILABLE, f"{tp.topic}[{tp.partition}] has no leader at the moment"
        )

    def _coordinator(self, target: Coordinator, deadline: Deadline) -> Endpoint:
        if target not in self._coordinators:
            lost = self._locate_coordinators([target], deadline)
            if target in lost:
                raise lost[target]
        found = self._coordinators.get(target)
        if found is None:
            raise TransportError(f"{target} moves: another thread has just lost it")
        return found

    def _locate_coordinators(
        self, targets: Iterable[Target], deadline: Deadline
    ) -> dict[Target, KafkaError]:
        """Ask for the coordinators that are not known; return why some were not found."""
        unknown: dict[CoordinatorKind, list[str]] = {}
        for target in dict.fromkeys(targets):
            if isinstance(target, Coordinator) and target not in self._coordinators:
                unknown.setdefault(target.kind, []).append(target.key)
        lost: dict[Target, KafkaError] = {}
        for kind, keys in unknown.items():
            while keys:
                found = self._ask_any(_find_coordinators(kind, keys), deadline, LANE)
                for key, where in found.items():
                    if isinstance(where, KafkaError):
                        lost[Coordinator(kind, key)] = where
                    else:
                        with self._lock:
                            self._coordinators[kind, key] = where
                keys = [key for key in keys if key not in found]
        return lost

    def forget(self, target: Target, error: object) -> None:
        """Drop what the error says is no longer true of ``target``."""
        if isinstance(error, BrokerError) and not (error.stale_metadata or error.code in _MOVED):
            return  # the right broker was asked: it cannot do it yet
        if isinstance(target, Coordinator):
            with self._lock:
                self._coordinators.pop(target, None)
        elif not isinstance(target, Anywhere):
            self._metadata.mark_stale()


def _version(call: Call[T], connection: Connection) -> int:
    """The version to speak with a broker. Raises UnsupportedVersion."""
    version = connection.version_of(call.api)
    if call.at_most is None or version <= call.at_most:
        return version
    return connection.versions.choose(call.api, at_most=call.at_most)


def _too_old(api: type[Message], error: TransportError) -> str:
    since = FIRST_KAFKA[cast(int, api.API_KEY)]
    name = api.__name__.removesuffix("Request")
    return f"{error}: it looks like Kafka 0.8, and {name}, which it hung up on, came with {since}"


def _is_retriable(result: object) -> bool:
    return isinstance(result, KafkaError) and result.retriable


def _find_coordinators(
    kind: CoordinatorKind, keys: Sequence[str]
) -> Call[dict[str, Endpoint | KafkaError]]:
    """Ask for many at once where the broker can (KIP-699), else for the first."""

    def build(version: int) -> FindCoordinatorRequest:
        if version >= 4:
            return FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
        if version == 0 and kind is not CoordinatorKind.GROUP:
            raise UnsupportedVersion(f"the broker has no {kind.name.lower()} coordinators")
        return FindCoordinatorRequest(key_type=kind if version else 0, key=keys[0])

    def read(answer: Message) -> dict[str, Endpoint | KafkaError]:
        assert isinstance(answer, FindCoordinatorResponse)
        if answer.coordinators:
            rows = {row.key: _coordinator(row, kind) for row in answer.coordinators}
            left_out = TransportError("the broker left this coordinator out of its answer")
            return {key: rows.get(key, left_out) for key in keys}
        single = Row(
            key=keys[0],
            error_code=answer.error_code,
            error_message=answer.error_message,
            node_id=answer.node_id,
            host=answer.host,
            port=answer.port,
        )
        return {single.key: _coordinator(single, kind)}

    return Call(FindCoordinatorRequest, build, read)


def _coordinator(row: Row, kind: CoordinatorKind) -> Endpoint | KafkaError:
    what = f"the coordinator of {kind.name.lower()} {row.key!r} was not found"
    if not row.error_code:
        found = Endpoint(row.node_id, row.host, row.port)
        return found if row.host else TransportError(what)
    if row.error_message:
        what += f" ({row.error_message})"
    return broker_error(row.error_code, what)
