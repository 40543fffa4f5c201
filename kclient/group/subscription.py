"""Which topics a consumer wants: by name, or by a pattern over those there are."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kclient.cluster import ClusterView
from kclient.errors import ConfigError


class Subscription:
    """Topics by name or pattern; empty when there is none."""

    def __init__(self, topics: Sequence[str] = (), pattern: re.Pattern[str] | None = None) -> None:
        self.topics = frozenset(topics)
        self.pattern = pattern

    @classmethod
    def of(cls, topics: Sequence[str], pattern: str | None) -> Subscription:
        """Raises ConfigError for a pattern that is none."""
        if pattern is None:
            return cls(topics)
        try:
            return cls((), re.compile(pattern))
        except re.error as error:
            raise ConfigError(f"pattern {pattern!r} is no regular expression: {error}") from None

    @property
    def is_active(self) -> bool:
        """Whether anything is subscribed to."""
        return self.pattern is not None or bool(self.topics)

    def update(self, view: ClusterView) -> bool:
        """Look which topics match the pattern now; whether they are others than before."""
        if self.pattern is None:
            return False
        found = frozenset(
            name
            for name, topic in view.topics.items()
            if not topic.is_internal and topic.partitions and self.pattern.search(name)
        )
        changed, self.topics = found != self.topics, found
        return changed
