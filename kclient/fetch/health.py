"""What each partition is doing, in words for people."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from kclient.fetch.positions import PartitionState, Positions
from kclient.types import OffsetAndMetadata, TopicPartition


class PartitionHealth(NamedTuple):
    """One partition: what it does, where it is, and why it is not fetched if it is not."""

    state: str
    position: int
    end: int
    """Where readers get to (the high watermark or last stable offset), -1 if unknown."""
    last_fetch_age: float | None
    """Seconds since an answer came for it, None if none has."""
    reason: str
    """What went wrong last, "" if nothing did."""
    retry_in: float = 0.0
    """Seconds until it is tried again, 0 if nothing holds it up."""


def health_of(
    positions: Positions, position: Callable[[PartitionState], OffsetAndMetadata]
) -> dict[TopicPartition, PartitionHealth]:
    """The health of every assigned partition; ``position`` tells where the user is."""
    now = time.monotonic()
    return {
        state.tp: PartitionHealth(
            "paused" if state.is_paused else state.phase.value,
            position(state).offset,
            state.end,
            now - state.fetched_at if state.fetched_at else None,
            str(state.error) if state.error is not None else state.reason,
            max(0.0, state.not_before - now),
        )
        for state in positions
    }
