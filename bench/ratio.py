"""Several ways of doing one thing, timed turn by turn, so that a noisy machine hits all alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Work = Callable[[], Any]


class Ratio(NamedTuple):
    """CPU seconds for one call, ours and theirs: the best of all rounds."""

    ours: float
    theirs: float

    @property
    def times_as_fast(self) -> float:
        """How many times as fast ours is."""
        return self.theirs / self.ours


def compare(ours: Work, theirs: Work, *, rounds: int, seconds: float = 0.05) -> Ratio:
    """Time both in ``rounds`` turns of about ``seconds`` each."""
    return Ratio(*race([ours, theirs], rounds=rounds, seconds=seconds))


def race(works: Sequence[Work], *, rounds: int, seconds: float = 0.05) -> list[float]:
    """CPU seconds for one call of each, the best of ``rounds`` turns of about ``seconds``."""
    counts = [_calls_in(work, seconds) for work in works]
    best = [float("inf")] * len(works)
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for side, work in enumerate(works):
                best[side] = min(best[side], _timed(work, counts[side]))
    finally:
        gc.enable()
    return best


def _timed(work: Work, count: int) -> float:
    begin = time.process_time()
    for _ in range(count):
        work()
    return (time.process_time() - begin) / count


def _calls_in(work: Work, seconds: float) -> int:
    """How many calls fill ``seconds``; the first one warms up caches and is not counted."""
    work()
    return max(1, int(seconds / max(_timed(work, 3), 1e-7)))
