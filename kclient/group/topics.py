"""The topics of a subscription, watched: whether they are there, and which a pattern finds."""

from __future__ import annotations

import logging

from kclient.cluster import ClusterView, Metadata
from kclient.cluster.retry import Backoff
from kclient.cluster.tasks import Tasks
from kclient.config import ConsumerOptions
from kclient.deadline import Deadline
from kclient.errors import KafkaError, broker_error
from kclient.group.subscription import Subscription

_log = logging.getLogger(__name__)
_UNKNOWN_TOPIC, _INVALID_TOPIC, _NOT_AUTHORIZED = 3, 17, 29
_LOOK_AGAIN = 1.0  # seconds after which to look whether the metadata have become old


class TopicWatch:
    """Keeps the metadata of a subscription fresh, and tells when they have changed."""

    def __init__(self, options: ConsumerOptions, metadata: Metadata, tasks: Tasks) -> None:
        self.subscription = Subscription()
        self._metadata = metadata
        self._tasks = tasks
        self._backoff = Backoff(options)
        self._seconds = options["request_timeout_ms"] / 1000
        self._failures = 0
        self._not_before = 0.0
        self._seen: object = None
        self._missed: set[str] = set()

    def subscribe(self, subscription: Subscription) -> None:
        """Watch other topics."""
        self.subscription = subscription
        self._seen = None
        self._missed.clear()
        self._metadata.mark_stale()

    def refresh(self, now: float) -> float:
        """Ask for the topics if what is known is old; returns when to look again."""
        if self._metadata.is_old and now >= self._not_before:
            topics = None if self.subscription.pattern else self.subscription.topics
            deadline = Deadline(self._seconds)
            self._tasks.start("topics", lambda: self._metadata.refresh(deadline, topics))
        return now + _LOOK_AGAIN

    def note_result(self, result: object, now: float) -> None:
        """The errand has ended. Raises what no retry would mend."""
        if not isinstance(result, KafkaError):
            self._failures = 0
            return
        if not result.retriable:
            raise result
        self._failures += 1
        self._not_before = now + self._backoff.seconds(self._failures)

    def look(self) -> ClusterView | None:
        """The view if it is another than last time.

        Raises NotAuthorized or InvalidRequest for a topic that will never be readable.
        """
        view = self._metadata.view
        if view is self._seen:
            return None
        self._seen = view
        self._check_topics()
        return view

    def _check_topics(self) -> None:
        if self.subscription.pattern is not None:
            return
        for name in self.subscription.topics:
            topic = self._metadata.view.topics.get(name)
            code = 0 if topic is None else topic.error_code
            if code in (_INVALID_TOPIC, _NOT_AUTHORIZED):
                self._metadata.mark_stale()
                raise broker_error(code, f"subscribing to topic {name!r}", topic=name)
            if code == _UNKNOWN_TOPIC and name not in self._missed:
                self._missed.add(name)
                _log.warning("there is no topic %r; it is read as soon as there is", name)
