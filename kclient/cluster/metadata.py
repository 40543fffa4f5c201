"""The metadata cache: what is known of the cluster, refreshed by age, on demand, on errors."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Collection, Iterable

from kclient.cluster.retry import Backoff, retry
from kclient.cluster.view import ClusterView, LeaderHint, TopicView
from kclient.config import ClientOptions, parse_servers
from kclient.deadline import Deadline
from kclient.errors import KafkaError, TransportError, broker_error
from kclient.net.endpoint import Endpoint
from kclient.net.pool import Pool
from kclient.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

_log = logging.getLogger(__name__)
LANE = "metadata"
_REBOOTSTRAP_REQUIRED = 129
UNKNOWN_TOPIC = 3
TOPIC_GRACE = 2.0  # seconds in which a topic that was just made may be unknown to a broker


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
        self._lock = threading.Lock()  # one refresh at a time; guards the fields below
        self._refreshed_at = 0.0
        self._is_stale = True
        self._topics: set[str] = set()
        self._reached_at = time.monotonic()

    # --- what others ask ---

    def brokers(self, deadline: Deadline) -> dict[int, Endpoint]:
        """Every broker, by node id; refreshed if the view is old."""
        if self.is_old:
            self.refresh(deadline)
        return dict(self.view.brokers)

    @property
    def is_old(self) -> bool:
        """Whether the view should be refreshed before it is used."""
        return self._is_stale or time.monotonic() - self._refreshed_at > self._max_age

    def mark_stale(self) -> None:
        """Have the view refreshed before its next use: somebody met an error that says so."""
        self._is_stale = True

    def topic(self, name: str, deadline: Deadline, *, create: bool = False) -> TopicView:
        """A topic with at least one partition; asked for if it is not known or the view is old.

        ``create`` lets a broker that is configured so create it. Raises TopicNotFound,
        NotAuthorized, InvalidRequest for a bad name, or KafkaTimeout.
        """
        known = self.view.topics.get(name)
        if known is not None and known.partitions and not known.error_code and not self.is_old:
            return known
        patience = time.monotonic() + (deadline.left() if create else TOPIC_GRACE)

        def attempt() -> TopicView:
            self._fetch({name}, deadline, create=create)
            return self._found(name, is_final=time.monotonic() >= patience)

        return retry(attempt, f"looking for topic {name!r}", deadline, self._backoff)

    def leader(self, topic: str, partition: int) -> Endpoint | None:
        """The broker that leads a partition by the present view, None if that does not say."""
        found = self.view.topics.get(topic)
        entry = None if found is None else found.partitions.get(partition)
        return None if entry is None else self.view.brokers.get(entry.leader_id)

    def refresh(self, deadline: Deadline, topics: Collection[str] | None = ()) -> ClusterView:
        """Ask for the brokers, all topics used so far and ``topics``; None asks for all.

        Raises KafkaTimeout when no broker answers in time, AuthenticationError and whatever
        else no retry would mend.
        """
        wanted = None if topics is None else self._topics | set(topics)
        retry(
            lambda: self._fetch(wanted, deadline),
            "asking for the cluster's metadata",
            deadline,
            self._backoff,
        )
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

        The bootstrap addresses come last, for when every known broker is gone (KIP-899).
        """
        known = list(self.view.brokers.values())
        random.shuffle(known)
        known.sort(key=self._pool.backoff_until)
        if not known:
            return self._bootstrap
        if self._options["metadata_recovery_strategy"] == "none":
            return known
        trigger = self._options["metadata_recovery_rebootstrap_trigger_ms"] / 1000
        if time.monotonic() - self._reached_at > trigger:
            return [*self._bootstrap, *known]
        return [*known, *self._bootstrap]

    # --- how it is asked ---

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

    def _fetch(
        self, topics: Collection[str] | None, deadline: Deadline, *, create: bool = False
    ) -> None:
        """One refresh, by the first broker that answers."""
        failures: list[KafkaError] = []
        for endpoint in self.candidates():
            try:
                self._fetch_from(endpoint, topics, deadline, create)
                return
            except KafkaError as error:
                if not error.retriable:
                    raise
                failures.append(error)
        if not self._is_stale or len(failures) == 1:
            raise failures[-1]
        raise TransportError(
            "no broker could be asked: " + "; ".join(str(error) for error in failures),
            failures=failures,
        )

    def _fetch_from(
        self,
        endpoint: Endpoint,
        topics: Collection[str] | None,
        deadline: Deadline,
        create: bool,
    ) -> None:
        with self._pool.lease(endpoint, LANE, deadline) as connection:
            version = connection.version_of(MetadataRequest)
            request = metadata_request(topics, version, create=create)
            answer = connection.ask(request, version, deadline.within(self._request_seconds))
        if not isinstance(answer, MetadataResponse):
            raise TypeError(type(answer).__name__)
        if answer.error_code == _REBOOTSTRAP_REQUIRED:
            self._rebootstrap(endpoint)
        self._apply(answer, topics)

    def _rebootstrap(self, endpoint: Endpoint) -> None:
        """Begin anew from the bootstrap addresses: the cluster says so (KIP-1102)."""
        _log.info("%s asks to bootstrap anew", endpoint)
        with self._lock:
            self.view = ClusterView(cluster_id=self.view.cluster_id)
        raise TransportError(f"{endpoint} asks to bootstrap anew")

    def _apply(self, answer: MetadataResponse, topics: Collection[str] | None) -> None:
        with self._lock:
            self.view = self.view.merged(answer, is_full=topics is None)
            self._topics.update(topics or ())
            self._reached_at = time.monotonic()
            if topics is None or self._topics <= set(topics):
                self._refreshed_at = self._reached_at
                self._is_stale = False


def metadata_request(
    topics: Collection[str] | None, version: int, *, create: bool = False
) -> MetadataRequest:
    """The question about some topics, or None for all, in a version."""
    names = [MetadataRequestTopic(name=name) for name in sorted(topics or ())]
    if version == 0:  # an empty list means all; a name that cannot exist asks for none
        none = [MetadataRequestTopic(name="~")]
        return MetadataRequest(topics=[] if topics is None else names or none)
    request = MetadataRequest(topics=None if topics is None else names)
    if version >= 4:
        request.allow_auto_topic_creation = create
    return request
