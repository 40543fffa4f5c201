"""The moment a public call must be over by; made once, passed down, never extended."""

from __future__ import annotations

import threading
import time

from kclient.errors import ConfigError, KafkaTimeout


class Deadline:
    """``seconds`` from now."""

    __slots__ = ("_end", "seconds")

    def __init__(self, seconds: float) -> None:
        """Raises ConfigError unless ``seconds`` is above 0 and one that a lock can wait for."""
        if not 0 < seconds <= threading.TIMEOUT_MAX:
            raise ConfigError(f"timeout is a number of seconds above 0, not {seconds!r}")
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds left. Raises KafkaTimeout when there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise KafkaTimeout(f"the {self.seconds:g} s of this call are over")
        return left

    @property
    def is_over(self) -> bool:
        """Whether the moment has passed."""
        return time.monotonic() >= self._end

    def left(self) -> float:
        """Seconds left, 0 when there are none."""
        return max(0.0, self._end - time.monotonic())

    def within(self, seconds: float) -> Deadline:
        """The earlier of this one and ``seconds`` from now: for a stage with its own limit."""
        return Deadline(min(seconds, self.remaining()))

    def share(self, others: int) -> Deadline:
        """Half of the time left if there are ``others`` to turn to, else all of it.

        So the first that does not answer cannot use up the time of those after it.
        """
        return Deadline(self.remaining() / 2) if others else self
