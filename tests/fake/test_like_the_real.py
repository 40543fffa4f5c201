"""The fake answers as a real broker does: the same requests to both, the answers compared."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kclient.testing import FakeCluster, LocalKafka

from .scenarios import SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_fake_answers_like_a_real_broker(
    scenario: Callable[[str, str], list[object]],
    local_kafka: LocalKafka,
    fake_cluster: Callable[..., FakeCluster],
) -> None:
    name = f"like-the-real-{scenario.__name__}"
    faked = scenario(fake_cluster().address(1), name)
    assert faked == scenario(local_kafka.bootstrap_servers, name)
