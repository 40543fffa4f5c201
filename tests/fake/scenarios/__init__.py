"""Rows of requests to any broker, and what it answers: codes, offsets, epochs, shares.

Each takes a broker's address and a name for all that it makes.
"""

from __future__ import annotations

from .coordinators import (
    a_classic_group,
    a_consumer_group,
    offsets_in_transactions,
    offsets_of_groups,
    static_members_of_a_consumer_group,
    transactions_of_version_1,
    transactions_of_version_2,
)
from .logs import (
    fetch_sessions,
    fetches,
    idempotence,
    offsets_and_epochs,
    produce_requests_that_are_wrong,
    topics,
)

SCENARIOS = [
    idempotence,
    produce_requests_that_are_wrong,
    offsets_and_epochs,
    fetches,
    fetch_sessions,
    a_classic_group,
    a_consumer_group,
    static_members_of_a_consumer_group,
    offsets_of_groups,
    offsets_in_transactions,
    transactions_of_version_1,
    transactions_of_version_2,
    topics,
]
