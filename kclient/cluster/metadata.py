"""The metadata cache: what is known of the cluster, refreshed by age, on demand, on errors."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import NoReturn

from kclient.cluster.retry import Backoff, retry
from kclient.cluster.view import ClusterView, LeaderHint, TopicView
from kclient.config import ClientOptions, parse_servers
from kclient.deadline import Deadline
from kclient.errors import (
    KafkaError,
    KafkaTimeout,
    ProtocolError,
    TopicNotFound,
    TransportError,
    broker_error,
)
from kclient.net.endpoint import Endpoint
from kclient.net.pool import Pool
from kclient.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kclient.types import TopicPartition

_log = logging.getLogger(__name__)
LANE = "metadata"
_REBOOTSTRAP_REQUIRED = 129
UNKNOWN_TOPIC = 3
TOPIC_GRACE = 2.0  # seconds in which a topic that was just made may be unknown to a broker
_CREATION_GRACE = 5.0  # and one that the broker may be making because we ask for it


class Metadata:
    """The cluster's view, shared by all of a client's threads.

    ``view`` is a snapshot: take it once, use it, take it again.
    """

    def __init__(self, options: ClientOptions, pool: Pool) -> None:
        self.view = ClusterView()
        self._options = options
        self._pool = pool
        self._backoff = Backoff(options)
        self._bootstrap = [
            Endpoint(-1 - number, host, port)
            for number, (host, port) in enumerate(parse_servers(options["bootstrap_servers"]))
        ]
        self._max_age = options["metadata_max_age_ms"] / 1000
        self._request_seconds = options["request_timeout_ms"] / 1000
        self._asking = threading.Lock()  # one question at a time; taken before the next
        self._lock = threading.Lock()  # guards the view's replacement and the fields below
        self._refreshed_at = 0.0
        self._marks, self._cleared_marks = 1, 0  # errors that said "stale", and those dealt with
        self._topics: set[str] = set()
        self._failing_since = 0.0  # 0 while brokers answer

    # --- what others ask ---

    def brokers(self, deadline: Deadline) -> dict[int, Endpoint]:
        """Every broker, by node id; refreshed if the view is old."""
        if self.is_old:
            self._refresh(lambda: not self.is_old, self._used(), deadline)
        return dict(self.view.brokers)

    @property
    def is_old(self) -> bool:
        """Whether the view should be refreshed before it is used."""
        is_stale = self._marks != self._cleared_marks
        return is_stale or time.monotonic() - self._refreshed_at > self._max_age

    def mark_stale(self) -> None:
        """Have the view refreshed before its next use: somebody met an error that says so."""
        self._marks += 1

    def topic(self, name: str, deadline: Deadline, *, create: bool = False) -> TopicView:
        """A topic with at least one partition; asked for if it is not known or the view is old.

        ``create`` lets a broker that is configured so create it. Raises TopicNotFound,
        NotAuthorized, InvalidRequest for a bad name, or KafkaTimeout.
        """
        known = self._fresh_topic(name)
        if known is not None:
            return known
        patience = time.monotonic() + (_CREATION_GRACE if create else TOPIC_GRACE)

        def attempt() -> TopicView:
            is_new = name not in self.view.topics
            # Whatever else is asked for in the same breath would be created, too.
            alone = not self.is_old or (create and is_new)
            self._ask(
                lambda: self._fresh_topic(name) is not None,
                {name} if alone else self._used() | {name},
                deadline,
                create=create and alone,
            )
            return self._found(name, is_final=time.monotonic() >= patience)

        try:
            return retry(attempt, f"looking for topic {name!r}", deadline, self._backoff)
        except TopicNotFound:
            self.forget_topic(name)
            raise

    def leader(self, topic: str, partition: int) -> Endpoint | None:
        """The broker that leads a partition by the present view, None if that does not say."""
        return self.view.leader(TopicPartition(topic, partition))

    def refresh(self, deadline: Deadline, topics: Collection[str] | None = ()) -> ClusterView:
        """Ask for the brokers, all topics used so far and ``topics``; None asks for all.

        Raises KafkaTimeout when no broker answers in time, AuthenticationError and whatever
        else no retry would mend.
        """
        wanted = None if topics is None else self._used() | set(topics)
        self._refresh(lambda: False, wanted, deadline)
        return self.view

    def apply_hints(self, hints: Iterable[LeaderHint], endpoints: Iterable[Endpoint]) -> None:
        """Use the leaders that an answer named (KIP-951) at once."""
        with self._lock:
            self.view = self.view.hinted(hints, endpoints)

    def forget_topic(self, name: str) -> None:
        """Ask for a topic no more; nobody uses it."""
        with self._lock:
            self._topics.discard(name)
            self.view = self.view.without(name)

    def candidates(self) -> list[Endpoint]:
        """Brokers in the order to try them: those that are well, those in backoff, bootstrap.

        The bootstrap addresses come last, for when every known broker is gone (KIP-899), or
        first when no broker has answered for long (KIP-1102).
        """
        known = self._in_order(self.view.brokers.values())
        if known and self._options["metadata_recovery_strategy"] == "none":
            return known
        addresses = {endpoint.address for endpoint in known}
        others = self._in_order(
            endpoint for endpoint in self._bootstrap if endpoint.address not in addresses
        )
        trigger = self._options["metadata_recovery_rebootstrap_trigger_ms"] / 1000
        failing = self._failing_since
        if failing and time.monotonic() - failing > trigger:
            return [*others, *known]
        return [*known, *others]

    def _in_order(self, endpoints: Iterable[Endpoint]) -> list[Endpoint]:
        shuffled = list(endpoints)
        random.shuffle(shuffled)
        return sorted(shuffled, key=self._pool.backoff_until)

    # --- how it is asked ---

    def _used(self) -> set[str]:
        with self._lock:
            return set(self._topics)

    def _fresh_topic(self, name: str) -> TopicView | None:
        known = self.view.topics.get(name)
        if known is None or known.error_code or not known.partitions or self.is_old:
            return None
        return known

    def _found(self, name: str, *, is_final: bool) -> TopicView:
        topic = self.view.topics.get(name)
        code = UNKNOWN_TOPIC if topic is None else topic.error_code
        if topic is not None and not code and topic.partitions:
            return topic
        error = broker_error(
            code or UNKNOWN_TOPIC,
            f"topic {name!r} cannot be used; check its name, that it exists "
            "(Admin.create_topic), and this user's rights",
            topic=name,
        )
        if code == UNKNOWN_TOPIC and is_final:
            error.retriable = False
        raise error

    def _refresh(
        self, is_done: Callable[[], bool], topics: Collection[str] | None, deadline: Deadline
    ) -> None:
        retry(
            lambda: self._ask(is_done, topics, deadline),
            "asking for the cluster's metadata",
            deadline,
            self._backoff,
        )

    def _ask(
        self,
        is_done: Callable[[], bool],
        topics: Collection[str] | None,
        deadline: Deadline,
        *,
        create: bool = False,
    ) -> None:
        """Ask once, unless another thread that was asking meanwhile got what is wanted."""
        if not self._asking.acquire(timeout=deadline.remaining()):
            raise KafkaTimeout(
                f"another thread asked for metadata for all of the {deadline.seconds:g} s of "
                "this call, and got no answer"
            )
        try:
            if not is_done():
                self._fetch(topics, deadline, create)
        finally:
            self._asking.release()

    def _fetch(self, topics: Collection[str] | None, deadline: Deadline, create: bool) -> None:
        """One refresh, by the first broker that answers."""
        failures: list[KafkaError] = []
        candidates = self.candidates()
        for count, endpoint in enumerate(candidates, 1):
            try:
                limit = deadline.share(len(candidates) - count)
                return self._fetch_from(endpoint, topics, limit, create)
            except _RebootstrapRequired:
                raise
            except (TransportError, KafkaTimeout, ProtocolError) as error:
                failures.append(error)
                if deadline.is_over:
                    break
        summary = _summary(failures)
        if not self._failing_since:
            _log.warning("%s; it is tried again", summary)
        self._failing_since = self._failing_since or time.monotonic()
        raise summary

    def _fetch_from(
        self,
        endpoint: Endpoint,
        topics: Collection[str] | None,
        deadline: Deadline,
        create: bool,
    ) -> None:
        marks = self._marks
        with self._pool.lease(endpoint, LANE, deadline) as connection:
            version = connection.version_of(MetadataRequest)
            request = metadata_request(topics, version, create=create)
            answer = connection.ask(request, version, deadline.within(self._request_seconds))
        if not isinstance(answer, MetadataResponse):
            raise TypeError(type(answer).__name__)
        if answer.error_code:
            self._refused(endpoint, answer.error_code)
        self._apply(endpoint, answer, topics, marks)

    def _refused(self, endpoint: Endpoint, code: int) -> NoReturn:
        is_allowed = self._options["metadata_recovery_strategy"] != "none"
        if code != _REBOOTSTRAP_REQUIRED or not is_allowed:
            raise broker_error(code, f"{endpoint} told no metadata")
        _log.info("%s asks to bootstrap anew (KIP-1102)", endpoint)
        with self._lock:
            self.view = replace(self.view, brokers={})
        raise _RebootstrapRequired(f"{endpoint} asks to bootstrap anew")

    def _apply(
        self,
        endpoint: Endpoint,
        answer: MetadataResponse,
        topics: Collection[str] | None,
        marks: int,
    ) -> None:
        with self._lock:
            known = self._same_cluster(endpoint, answer.cluster_id)
            self.view = known.merged(answer, is_full=topics is None)
            self._topics.update(topics or ())
            self._failing_since = 0.0
            if topics is None or self._topics <= set(topics):
                self._refreshed_at = time.monotonic()
                self._cleared_marks = marks

    def _same_cluster(self, endpoint: Endpoint, cluster_id: str | None) -> ClusterView:
        """The view to merge an answer into; addresses may come to belong to other clusters."""
        known = self.view.cluster_id
        if not known or not cluster_id or known == cluster_id:
            return self.view
        if endpoint.address not in {each.address for each in self._bootstrap}:
            raise TransportError(
                f"{endpoint} belongs to cluster {cluster_id!r} now, not to {known!r}",
                address=endpoint.address,
            )
        _log.warning("%s is cluster %r now; it was %r", endpoint, cluster_id, known)
        return ClusterView()


class _RebootstrapRequired(TransportError):
    """The broker knows that what we know of the cluster is wrong."""


def _summary(failures: list[KafkaError]) -> KafkaError:
    """One error for those of several brokers; retriable if any of them is."""
    if len(failures) == 1 or not any(error.retriable for error in failures):
        return failures[0]
    told = "; ".join(str(error) for error in failures)
    return TransportError(f"no broker could be asked: {told}", failures=tuple(failures))


def metadata_request(
    topics: Collection[str] | None, version: int, *, create: bool = False
) -> MetadataRequest:
    """The question about some topics, or None for all, in a version.

    Before v4 a broker makes the topics it is asked for by name, if it is configured so; to
    look without making, all are asked for.
    """
    if topics and version < 4 and not create:
        topics = None
    names = [MetadataRequestTopic(name=name) for name in sorted(topics or ())]
    if version == 0:  # an empty list means all; a name that cannot exist asks for none
        none = [MetadataRequestTopic(name="~")]
        return MetadataRequest(topics=[] if topics is None else names or none)
    request = MetadataRequest(topics=None if topics is None else names)
    if version >= 4:
        request.allow_auto_topic_creation = create
    return request
