"""The retry loop: what is tried again, how long between, and what is told at the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.cluster.retry import Backoff, retry
from kclient.config import ClientOptions, resolve
from kclient.deadline import Deadline
from kclient.errors import ConfigError, KafkaError, KafkaTimeout, TransportError, broker_error


def backoff(first_ms: int = 1, longest_ms: int = 2) -> Backoff:
    given = {"retry_backoff_ms": first_ms, "retry_backoff_max_ms": longest_ms}
    return Backoff(resolve(ClientOptions, {"bootstrap_servers": "b", **given}))


class Attempts:
    """Fails with each of these errors in turn, then returns how many there were."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.count = 0

    def __call__(self) -> int:
        self.count += 1
        if self.count <= len(self._errors):
            raise self._errors[self.count - 1]
        return self.count


def test_retriable_errors_are_tried_again_and_told_to_whom_it_concerns() -> None:
    errors = [TransportError("gone"), broker_error(6, "moved"), KafkaTimeout("slow")]
    told: list[KafkaError] = []
    assert retry(Attempts(*errors), "it", Deadline(20), backoff(), told.append) == 4
    assert told == errors


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize(
    "final", [broker_error(29, "no"), ConfigError("wrong"), ValueError("a bug")], ids=repr
)
def test_others_are_not(final: Exception, before: int) -> None:
    attempts = Attempts(*[TransportError("gone")] * before, final)
    with pytest.raises(type(final)) as got:
        retry(attempts, "it", Deadline(20), backoff())
    assert got.value is final
    assert attempts.count == before + 1


def test_no_attempt_begins_that_has_no_time() -> None:
    attempts = Attempts(*[TransportError("gone")] * 9)
    with pytest.raises(KafkaTimeout, match=r"it: not done within 5 s \(1 attempts\)") as got:
        retry(attempts, "it", Deadline(5), backoff(60_000, 60_000))
    assert attempts.count == 1
    assert str(got.value.cause) == "gone"


def test_the_attempt_that_the_end_cut_short_does_not_hide_the_reason() -> None:
    deadline = Deadline(0.05)

    def attempt() -> None:
        if deadline.left() > 0.02:
            raise TransportError("connection refused")
        while not deadline.is_over:
            pass
        deadline.remaining()

    with pytest.raises(KafkaTimeout, match="not cut short failed with: connection refused") as got:
        retry(attempt, "it", deadline, backoff())
    assert isinstance(got.value.cause, TransportError)


@given(st.integers(1, 100_000), st.integers(0, 1000), st.integers(0, 5000))
def test_the_wait_doubles_up_to_its_limit_give_or_take_a_fifth(
    failures: int, first_ms: int, longest_ms: int
) -> None:
    seconds = backoff(first_ms, longest_ms).seconds(failures)
    planned = min(first_ms * 2.0 ** min(failures - 1, 40), longest_ms) / 1000
    assert planned * 0.8 <= seconds <= planned * 1.2
