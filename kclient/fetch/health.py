"""What each partition is doing, in words for people."""

from __future__ import annotations

import time
from typing import NamedTuple

from kclient.fetch.positions import Positions
from kclient.types import TopicPartition


class PartitionHealth(NamedTuple):
    """One partition: its phase, where it is, and why it is not fetched if it is not."""

    state: str
    position: int
    end: int
    """The high watermark, -1 if it is not known."""
    last_fetch_age: float | None
    """Seconds since an answer came for it, None if none has."""
    reason: str
    """What went wrong last, "" if nothing did."""


def health_of(positions: Positions) -> dict[TopicPartition, PartitionHealth]:
    """The health of every assigned partition."""
    now = time.monotonic()
    return {
        state.tp: PartitionHealth(
            "paused" if state.is_paused else state.phase.value,
            state.position,
            state.end,
            now - state.fetched_at if state.fetched_at else None,
            str(state.error) if state.error is not None else state.reason,
        )
        for state in positions
    }
