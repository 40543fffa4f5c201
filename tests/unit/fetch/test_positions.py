from __future__ import annotations

import pytest

from kclient.errors import ConfigError, KafkaError
from kclient.fetch.positions import EARLIEST, Phase, Positions
from kclient.types import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def positions() -> Positions:
    made = Positions(max_bytes=1000)
    made.assign([A, B])
    return made


def test_new_partition_needs_an_offset(positions: Positions) -> None:
    assert [state.tp for state in positions.in_phase(Phase.LOST, 0.0)] == [A, B]
    assert positions.get(A).position == -1


def test_what_stays_keeps_its_position(positions: Positions) -> None:
    positions.seek(A, 7)
    positions.assign([A])
    assert positions.get(A).position == 7
    positions.add([B])
    assert positions.get(A).position == 7
    assert set(positions.states) == {A, B}


def test_what_goes_and_comes_back_starts_anew(positions: Positions) -> None:
    positions.seek(A, 7)
    old = positions.get(A)
    token = old.token
    positions.remove([A])
    assert old.token != token, "data on its way is for nobody"
    positions.add([A])
    assert positions.get(A).phase is Phase.LOST


def test_unassigned_partition_is_explained(positions: Positions) -> None:
    with pytest.raises(ConfigError, match=r"t\[7\] is not assigned.*poll"):
        positions.get(TopicPartition("t", 7))


def test_seek_drops_what_is_on_its_way(positions: Positions) -> None:
    state = positions.get(A)
    version, token = positions.version, state.token
    state.fail("broken", 1.0, 5.0)
    positions.seek(A, 3, epoch=2)
    assert (state.phase, state.position, state.fetch_offset) == (Phase.FETCHING, 3, 3)
    assert (state.epoch, state.fetch_epoch) == (2, 2)
    assert state.token != token
    assert positions.version != version
    assert (state.not_before, state.reason, state.failures) == (0.0, "", 0)


@pytest.mark.parametrize("phase", list(Phase))
def test_pausing_asks_again_for_what_was_fetched_ahead(positions: Positions, phase: Phase) -> None:
    """In any phase: what a check interrupts must not be lost either."""
    state = positions.get(A)
    state.move(3)
    state.fetch_offset = 10
    state.phase = phase
    token = state.token
    positions.pause([A], is_paused=True)
    assert state.is_paused
    assert (state.fetch_offset, state.phase) == (3, phase)
    assert state.token != token
    positions.pause([A], is_paused=False)
    assert not state.is_paused


def test_reset_forgets_the_position(positions: Positions) -> None:
    state = positions.get(A)
    state.move(3)
    state.reset(EARLIEST)
    assert (state.phase, state.position, state.reset_time) == (Phase.RESETTING, -1, EARLIEST)


def test_backoff_holds_until_its_end(positions: Positions) -> None:
    positions.get(A).fail("broken", now=1.0, not_before=5.0)
    assert [state.tp for state in positions.in_phase(Phase.LOST, 4.9)] == [B]
    assert [state.tp for state in positions.in_phase(Phase.LOST, 5.0)] == [A, B]


def test_failing_since_the_first_of_a_row(positions: Positions) -> None:
    state = positions.get(A)
    state.fail("one", now=1.0, not_before=2.0)
    state.fail("two", now=3.0, not_before=4.0)
    assert (state.failing_since, state.failures, state.reason) == (1.0, 2, "two")
    state.settle()
    assert state.failing_since == 0.0


def test_each_error_is_told_once(positions: Positions) -> None:
    first, second = KafkaError("first"), KafkaError("second")
    positions.refuse(positions.get(A), first)
    positions.refuse(positions.get(B), second)
    assert positions.take_error() is first
    assert positions.get(A).error is None
    assert positions.take_error() is second
    assert positions.take_error() is None


def test_errors_of_partitions_that_are_gone_are_not_told(positions: Positions) -> None:
    positions.refuse(positions.get(A), KafkaError("first"))
    positions.remove([A])
    assert positions.take_error() is None
