"""What becomes of many items: results, failures, and errors that are about the whole call."""

from __future__ import annotations

import pytest

from kclient.errors import (
    BrokerError,
    KafkaError,
    KafkaTimeout,
    PartialFailure,
    TopicExists,
    TopicNotFound,
    TransportError,
    UnsupportedVersion,
)
from kclient.operations.many import CONTROLLER_CODES, failed, outcome, settle, succeeded


def test_all_went_well() -> None:
    assert settle("x", {"a": 1, "b": None}, 1) == {"a": 1, "b": None}


def test_some_failed() -> None:
    error = failed(36, "topic 'b' was not created", "Topic 'b' already exists.")
    with pytest.raises(PartialFailure, match="creating: 1 of 2 failed .*: b: topic 'b'") as caught:
        settle("creating", {"a": 1, "b": error}, 1)
    assert caught.value.results == {"a": 1}
    assert caught.value.failures == {"b": error}
    assert isinstance(error, TopicExists)
    assert succeeded({"a": 1, "b": error}) == ["a"]


def test_all_failed_each_for_a_reason_of_its_own() -> None:
    with pytest.raises(PartialFailure) as caught:
        settle("creating", {"a": failed(36, "a")}, 1)
    assert caught.value.results == {}


@pytest.mark.parametrize("error", [TransportError("no"), UnsupportedVersion("old")])
def test_all_failed_for_a_reason_that_is_not_theirs(error: KafkaError) -> None:
    error.retriable = False
    with pytest.raises(type(error)) as caught:
        settle("creating", {"a": error, "b": error}, 1)
    assert caught.value is error


def test_all_asked_alike_fail_alike() -> None:
    error = failed(31, "groups were not listed")
    with pytest.raises(BrokerError) as caught:
        settle("listing", {1: error, 2: failed(31, "another")}, 1, alike=True)
    assert caught.value is error


def test_what_was_still_to_be_tried_is_a_timeout() -> None:
    busy = failed(41, "not the controller", again=CONTROLLER_CODES)
    assert busy.retriable
    with pytest.raises(PartialFailure) as caught:
        settle("creating", {"a": busy, "b": 1}, 2.5)
    timeout = caught.value.failures["a"]
    assert isinstance(timeout, KafkaTimeout)
    assert timeout.cause is busy
    assert "not done within 2.5 s" in str(timeout)
    with pytest.raises(KafkaTimeout):
        settle("creating", {"a": TransportError("refused")}, 1)


def test_many_failures_are_counted_not_listed() -> None:
    results = {name: failed(36, name) for name in "abcdefgh"}
    with pytest.raises(PartialFailure, match="8 of 8 failed.*and 5 more$") as caught:
        settle("creating", results, 1)
    assert len(caught.value.failures) == 8


def test_the_table_of_codes_does_not_decide_what_is_final() -> None:
    assert TopicNotFound("x").retriable
    assert not failed(3, "topic 'x' was not deleted").retriable
    assert outcome(0, "x") is None
    assert isinstance(outcome(3, "x"), TopicNotFound)
