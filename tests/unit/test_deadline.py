from __future__ import annotations

import math

import pytest

from kclient.deadline import Deadline
from kclient.errors import ConfigError, KafkaTimeout


def over() -> Deadline:
    deadline = Deadline(1e-6)
    while not deadline.is_over:
        pass
    return deadline


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf])
def test_no_time_at_all_and_for_ever_are_refused(seconds: float) -> None:
    with pytest.raises(ConfigError, match="timeout is a number of seconds above 0"):
        Deadline(seconds)


def test_what_is_left() -> None:
    deadline = Deadline(1000)
    assert 900 < deadline.remaining() <= 1000
    assert 900 < deadline.left() <= 1000
    assert over().left() == 0
    with pytest.raises(KafkaTimeout, match="the 1e-06 s of this call are over"):
        over().remaining()


def test_a_stage_ends_no_later_than_the_whole() -> None:
    assert Deadline(1000).within(1).left() <= 1
    assert Deadline(1).within(1000).left() <= 1
    with pytest.raises(KafkaTimeout):
        over().within(1)


def test_others_to_turn_to_are_left_half_of_the_time() -> None:
    deadline = Deadline(1000)
    assert 400 < deadline.share(3).left() <= 500
    assert deadline.share(0) is deadline
