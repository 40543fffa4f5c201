from __future__ import annotations

import time

import pytest

from kclient import Consumer
from kclient.errors import ConfigError
from kclient.fetch.positions import EARLIEST, LATEST
from kclient.fetch.resets import check_reset, duration_ms, reset_time


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1H", 3_600_000),
        ("PT1H30M", 5_400_000),
        ("P1D", 86_400_000),
        ("P2DT3H4M5S", 183_845_000),
        ("PT0.5S", 500),
        ("PT10S", 10_000),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert duration_ms(f"by_duration:{text}") == expected


@pytest.mark.parametrize(
    "policy",
    ["newest", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:1h", "PT1H", ""],
)
def test_what_is_no_policy(policy: str) -> None:
    with pytest.raises(ConfigError, match="by_duration:PT1H30M"):
        check_reset(policy)
    with pytest.raises(ConfigError):
        Consumer("localhost:9092", auto_offset_reset=policy)


def test_times() -> None:
    assert reset_time("earliest") == EARLIEST
    assert reset_time("latest") == LATEST
    hour_ago = time.time() * 1000 - 3_600_000
    assert abs(reset_time("by_duration:PT1H") - hour_ago) < 10_000
    for policy in ("earliest", "latest", "none", "by_duration:PT1H"):
        check_reset(policy)
