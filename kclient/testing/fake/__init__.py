"""A Kafka cluster in this process, with scripted faults: ``FakeCluster``.

from kclient.testing import FakeCluster
from kclient.testing.fake import close_after, error_code

with FakeCluster(brokers=3, topics={"orders": 6}) as cluster:
    fault = cluster.on("Produce", close_after(), nth=2)
    ...
    fault.await_hit(timeout=5)
"""

from __future__ import annotations

from kclient.testing.fake.cluster import FakeCluster
from kclient.testing.fake.faults import (
    Fault,
    alter,
    answer,
    close_after,
    close_before,
    close_midway,
    delay,
    drop,
    error_code,
    garbage,
    move_coordinator,
    move_leader,
    negative_frame,
    oversized_frame,
    throttle,
    unsolicited,
    wrong_correlation_id,
)
from kclient.testing.fake.journal import SeenRequest
from kclient.testing.fake.script import ScriptedFault

__all__ = [
    "FakeCluster",
    "Fault",
    "ScriptedFault",
    "SeenRequest",
    "alter",
    "answer",
    "close_after",
    "close_before",
    "close_midway",
    "delay",
    "drop",
    "error_code",
    "garbage",
    "move_coordinator",
    "move_leader",
    "negative_frame",
    "oversized_frame",
    "throttle",
    "unsolicited",
    "wrong_correlation_id",
]
