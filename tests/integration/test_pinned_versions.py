"""An API held at a version on purpose: each one that Kafka 3.9.1 accepts works end to end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kclient import Admin, Consumer, Producer, Record, TopicPartition
from kclient.errors import ConfigError, UnsupportedVersion
from kclient.net.connection import Connection
from kclient.protocol import APIS, Message
from kclient.testing import LocalKafka

from .exchange import api_versions, new_name, now_ms

NAMES = (
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetFetch",
    "FindCoordinator",
    "JoinGroup",
)
SECONDS = 30.0
API_KEYS = {APIS[key].name: key for key in APIS}


@pytest.fixture(scope="module")
def servers(local_kafka_factory: Callable[..., LocalKafka]) -> Iterator[str]:
    # With ZooKeeper, for that is where v0 of OffsetCommit and OffsetFetch keeps offsets.
    kafka = local_kafka_factory(version="3.9.1", zookeeper=True)
    with Consumer(kafka.bootstrap_servers, group_id="first") as consumer:
        consumer.committed([TopicPartition("warm", 0)])  # the broker makes its offsets topic
    yield kafka.bootstrap_servers
    kafka.close()


@pytest.fixture
def spoken(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[int]]:
    """The versions that really leave, by API."""
    found: dict[str, set[int]] = {}
    post = Connection.post

    def noting(connection: Connection, request: Message, **options: Any) -> Any:
        sent = post(connection, request, **options)
        name = type(request).__name__.removesuffix("Request")
        found.setdefault(name, set()).add(sent.version)
        return sent

    monkeypatch.setattr(Connection, "post", noting)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_version_works_end_to_end(
    servers: str, name: str, spoken: dict[str, set[int]]
) -> None:
    (row,) = (row for row in api_versions(servers, 0).api_keys if row.api_key == API_KEYS[name])
    versions = range(row.min_version, row.max_version + 1)
    assert len(versions) > 4
    for version in versions:
        spoken.clear()
        walk(servers, caps_for(name, version))
        assert spoken[name] == {version}


def caps_for(name: str, version: int) -> dict[str, int]:
    """What is committed to ZooKeeper has to be fetched from there, and the other way round."""
    if name in ("OffsetCommit", "OffsetFetch") and version == 0:
        return {"OffsetCommit": 0, "OffsetFetch": 0}
    return {name: version}


def walk(servers: str, caps: dict[str, int]) -> None:
    """Write, read in a group, commit, come back and go on; look up by time where that exists."""
    topic, group, start = new_name(), new_name(), now_ms()
    tp = TopicPartition(topic, 0)
    headers = [("h", b"1")] if caps.get("Produce", 3) >= 3 and caps.get("Fetch", 4) >= 4 else []
    with Producer(servers, api_version_caps=caps) as producer:
        for n in range(4):
            value, key = b"value %d" % n, b"key %d" % n
            stamp = start + 1000 * n
            where = producer.send(topic, value, key=key, headers=headers, timestamp_ms=stamp)
            assert where.offset == n, caps
    with member(servers, group, caps) as consumer:
        consumer.subscribe([topic])
        got = take(consumer, 4)
        assert [(one.key, one.value) for one in got] == [
            (b"key %d" % n, b"value %d" % n) for n in range(4)
        ]
        assert [list(one.headers) for one in got] == [headers] * 4
        consumer.commit({tp: 2})
        assert consumer.end_offsets([tp]) == {tp: 4}
        check_times(consumer, tp, start + 1500, caps)
    with member(servers, group, caps) as consumer:
        consumer.subscribe([topic])
        assert [one.offset for one in take(consumer, 2)] == [2, 3]
        committed = consumer.committed([tp])[tp]
        assert committed is not None
        assert committed.offset == 2


def member(servers: str, group: str, caps: dict[str, int]) -> Consumer:
    return Consumer(
        servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        api_version_caps=caps,
    )


def check_times(consumer: Consumer, tp: TopicPartition, time_ms: int, caps: dict[str, int]) -> None:
    if caps.get("ListOffsets") == 0:
        with pytest.raises(UnsupportedVersion, match="by timestamp: Kafka can since 0.10.1"):
            consumer.offsets_for_times({tp: time_ms})
        return
    found = consumer.offsets_for_times({tp: time_ms})[tp]
    has_timestamps = caps.get("Produce", 2) >= 2
    assert (found and found.offset) == (2 if has_timestamps else None)


def take(consumer: Consumer, count: int) -> list[Record]:
    found: list[Record] = []
    end = time.monotonic() + SECONDS
    while len(found) < count:
        assert time.monotonic() < end, f"{len(found)} of {count} records came"
        found += consumer.poll(1.0)
    return found


def test_all_of_them_at_their_lowest(servers: str, spoken: dict[str, set[int]]) -> None:
    rows = {row.api_key: row.min_version for row in api_versions(servers, 0).api_keys}
    caps = {name: rows[API_KEYS[name]] for name in NAMES}
    walk(servers, caps)
    assert {name: spoken[name] for name in NAMES} == {name: {caps[name]} for name in NAMES}


def test_a_name_that_no_api_has_is_refused() -> None:
    with pytest.raises(ConfigError, match="Fetch"), Admin("x:1", api_version_caps={"Fecth": 1}):
        pass


def test_idempotence_needs_a_produce_that_carries_ids() -> None:
    with pytest.raises(ConfigError, match="Produce not capped below v3"):
        Producer("x:1", enable_idempotence=True, api_version_caps={"Produce": 2})
