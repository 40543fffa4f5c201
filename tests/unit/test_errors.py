from __future__ import annotations

import pickle
from typing import Any

import pytest

from kclient import errors


def test_a_broker_error_pickles_with_its_context() -> None:
    error = errors.broker_error(3, "describing topic a", topic="a")
    copy: Any = pickle.loads(pickle.dumps(error))
    assert type(copy).__name__ == "TopicNotFound"
    assert (str(copy), copy.code, copy.retriable, copy.topic) == (str(error), 3, True, "a")


def test_a_timeout_carries_its_cause_and_is_a_timeout_error() -> None:
    error = errors.KafkaTimeout("late", cause=ValueError("x"))
    copy: Any = pickle.loads(pickle.dumps(error))
    assert issubclass(type(copy), TimeoutError)
    assert str(copy.cause) == "x"


@pytest.mark.parametrize("code", [-2, 999])
def test_an_unknown_code_survives(code: int) -> None:
    error = errors.broker_error(code, "asking")
    assert (error.code, error.retriable) == (code, False)
