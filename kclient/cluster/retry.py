"""The one retry loop: what is tried again, how long between, and when it is over."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeVar

from kclient.config import ClientOptions
from kclient.deadline import Deadline
from kclient.errors import KafkaError, KafkaTimeout

if TYPE_CHECKING:
    from tenacity import RetryCallState, Retrying

T = TypeVar("T")
_JITTER = 0.2


class Backoff:
    """Exponential, with jitter (KIP-580): from ``retry_backoff_ms`` to its maximum."""

    def __init__(self, options: ClientOptions) -> None:
        self._first = options["retry_backoff_ms"] / 1000
        self._longest = options["retry_backoff_max_ms"] / 1000

    def seconds(self, failures: int) -> float:
        """How long to wait after this many failures in a row, the first being 1."""
        wait = min(self._first * 2.0 ** min(failures - 1, 30), self._longest)
        return wait * random.uniform(1 - _JITTER, 1 + _JITTER)


def retry(
    attempt: Callable[[], T],
    what: str,
    deadline: Deadline,
    backoff: Backoff,
    forget: Callable[[KafkaError], None] = lambda error: None,
) -> T:
    """Do ``attempt`` until it works, fails for good, or the time is over.

    Errors that are ``retriable`` are tried again, after ``forget(error)`` has dropped what
    is stale. Raises KafkaTimeout, with the last error as its cause, or the error itself.
    """
    try:
        return attempt()
    except KafkaError as error:
        if not error.retriable:
            raise
        first: list[KafkaError] = [error]

    def again() -> T:
        if first:  # the attempt that has failed already counts as the first
            raise first.pop()
        return attempt()

    return _retrying(what, deadline, backoff, forget)(again)


def _retrying(
    what: str, deadline: Deadline, backoff: Backoff, forget: Callable[[KafkaError], None]
) -> Retrying:
    import tenacity  # costs 30 ms, which most clients never need

    failures: list[KafkaError] = []  # the last two that are worth telling

    def wait(state: RetryCallState) -> float:
        return backoff.seconds(state.attempt_number)

    def should_retry(error: BaseException) -> bool:
        if not isinstance(error, KafkaError) or not error.retriable:
            return False
        forget(error)
        failures[:-1] = []
        failures.append(error)
        return True

    def give_up(state: RetryCallState) -> NoReturn:
        raise _timeout(what, deadline, state.attempt_number, failures) from failures[-1]

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(should_retry),
        wait=wait,
        stop=lambda state: state.upcoming_sleep >= deadline.left(),
        retry_error_callback=give_up,
    )


def _timeout(
    what: str, deadline: Deadline, attempts: int, failures: Sequence[KafkaError]
) -> KafkaTimeout:
    last = failures[-1]
    told = f"the last one failed with: {last}"
    if isinstance(last, KafkaTimeout) and deadline.is_over and len(failures) > 1:
        # It was cut short by the end of the time: why it took so long, the one before tells.
        last = failures[-2]
        told = f"the last one that was not cut short failed with: {last}"
    cause: KafkaError = last
    if isinstance(last, KafkaTimeout) and isinstance(last.cause, KafkaError):
        cause = last.cause  # of a retry within this one
    text = f"{what}: not done within {deadline.seconds:g} s ({attempts} attempts); {told}"
    return KafkaTimeout(text, cause=cause)
