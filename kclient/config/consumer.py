"""The options of ``Consumer``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from kclient.config.client import ClientKeywords, ClientOptions
from kclient.config.option import Option

Deserializer = Callable[[bytes], Any]
MIB = 1 << 20


_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_RESETS = {
    "smallest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "end": "latest",
    "error": "none",
}


def read_assignors(text: str) -> tuple[str, ...]:
    """Read names with commas between them; Java's are those of classes."""
    names = (item.strip().rpartition(".")[2] for item in text.split(","))
    return tuple(_ASSIGNORS.get(name, name) for name in names if name)


def read_reset(text: str) -> str:
    """Read a policy, also in librdkafka's words."""
    return _RESETS.get(text, text)


class ConsumerKeywords(ClientKeywords, total=False):
    """Options of ``Consumer``, by keyword; times end in ``_ms``, sizes are bytes."""

    group_id: Annotated[str | None, Option(None)]
    group_instance_id: Annotated[str | None, Option(None)]
    group_protocol: Annotated[str, Option("classic", choices=("classic", "consumer"))]
    group_remote_assignor: Annotated[str | None, Option(None)]
    partition_assignment_strategy: Annotated[
        Sequence[str], Option(("range", "cooperative-sticky"), read=read_assignors)
    ]
    auto_offset_reset: Annotated[str, Option("latest", read=read_reset)]
    enable_auto_commit: Annotated[bool, Option(True)]
    auto_commit_interval_ms: Annotated[int, Option(5_000, at_least=0)]
    session_timeout_ms: Annotated[int, Option(45_000, at_least=1)]
    heartbeat_interval_ms: Annotated[int, Option(3_000, at_least=1)]
    max_poll_interval_ms: Annotated[int, Option(300_000, at_least=1)]
    max_poll_records: Annotated[int, Option(500, at_least=1)]
    fetch_min_bytes: Annotated[int, Option(1, at_least=0)]
    fetch_max_wait_ms: Annotated[int, Option(500, at_least=0, kafka=("fetch.wait.max.ms",))]
    fetch_max_bytes: Annotated[int, Option(50 * MIB, at_least=0)]
    max_partition_fetch_bytes: Annotated[
        int, Option(MIB, at_least=0, kafka=("fetch.message.max.bytes",))
    ]
    isolation_level: Annotated[
        str, Option("read_uncommitted", choices=("read_uncommitted", "read_committed"))
    ]
    check_crcs: Annotated[bool, Option(True, kafka=("check.crcs",))]
    allow_auto_create_topics: Annotated[bool, Option(False)]
    key_deserializer: Annotated[Deserializer | None, Option(None)]
    value_deserializer: Annotated[Deserializer | None, Option(None)]


class ConsumerOptions(ConsumerKeywords, ClientOptions, total=False):
    """Every option of ``Consumer``, resolved."""
