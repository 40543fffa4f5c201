"""What a fake broker answers: one function per API, gathered in ``HANDLERS``."""

from __future__ import annotations

from kclient.testing.fake.handlers import (
    authentication,
    classic_groups,
    cluster,
    commits,
    consumer_groups,
    fetch,
    offsets,
    produce,
    topics,
    transactions,
)
from kclient.testing.fake.handlers.cluster import API_VERSIONS, newest_answer
from kclient.testing.fake.handlers.registry import HANDLERS, handle

__all__ = [
    "API_VERSIONS",
    "HANDLERS",
    "authentication",
    "classic_groups",
    "cluster",
    "commits",
    "consumer_groups",
    "fetch",
    "handle",
    "newest_answer",
    "offsets",
    "produce",
    "topics",
    "transactions",
]
