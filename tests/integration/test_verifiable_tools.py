"""The tools that Kafka's system tests drive: their events are those of Kafka's own tools."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from kclient.testing.jars import classpath
from kclient.testing.toolchain import java_command

from .exchange import create_topic, new_name

SECONDS = 60.0
Event = dict[str, Any]


def tool(whose: str, kind: str, servers: str, topic: str, *more: str) -> list[str]:
    """The command line of a ``Producer`` or ``Consumer``, ours or Java's."""
    command = [sys.executable, "-m", f"kclient.testing.verifiable_{kind.lower()}"]
    if whose == "java":
        flags = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classpath("4.3.1"))
        command = [java_command(), *flags, f"org.apache.kafka.tools.Verifiable{kind}"]
    return [*command, "--bootstrap-server", servers, "--topic", topic, *more]


def events_of(command: Sequence[str]) -> list[Event]:
    """All that a tool tells, which ends by itself."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    # Java's tools log to stdout, too.
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@contextmanager
def running(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A tool that goes on until it is told to end."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], name: str) -> Event:
    assert process.stdout is not None
    for line in process.stdout:
        event: Event = json.loads(line) if line.startswith("{") else {"name": line}
        if event["name"] == name:
            return event
    raise AssertionError(f"it ended, and never told {name}")


def ended_by_sigterm(process: subprocess.Popen[str]) -> list[Event]:
    """What a tool tells after it was told to end."""
    process.send_signal(signal.SIGTERM)
    told, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    return [json.loads(line) for line in told.splitlines()]


def shape(event: Any) -> Any:
    """Names and kinds of what an event holds."""
    if isinstance(event, dict):
        return {name: shape(value) for name, value in event.items()}
    if isinstance(event, list):
        return [shape(value) for value in event[:1]]
    return type(event).__name__


def shapes(events: list[Event]) -> dict[str, Any]:
    return {event["name"]: shape(event) for event in events}


@pytest.fixture
def topic(bootstrap_servers: str) -> str:
    name = new_name()
    create_topic(bootstrap_servers, name)
    return name


def test_the_producer_tells_what_java_tells(bootstrap_servers: str, topic: str) -> None:
    more = ("--max-messages", "5", "--repeating-keys", "2", "--value-prefix", "7")
    java = events_of(tool("java", "Producer", bootstrap_servers, topic, *more))
    ours = events_of(tool("ours", "Producer", bootstrap_servers, topic, *more))
    assert shapes(ours) == shapes(java)
    assert [event["name"] for event in ours] == [event["name"] for event in java]

    def sent(events: list[Event]) -> list[tuple[object, ...]]:
        found = [event for event in events if event["name"] == "producer_send_success"]
        return [(each["key"], each["value"], each["offset"] % 5) for each in found]

    assert sent(ours) == sent(java)
    assert (ours[-1]["sent"], ours[-1]["acked"]) == (5, 5)


def test_what_cannot_be_sent_is_told(bootstrap_servers: str) -> None:
    more = ("--max-messages", "2")
    java = events_of(tool("java", "Producer", bootstrap_servers, "no topic!", *more))
    ours = events_of(tool("ours", "Producer", bootstrap_servers, "no topic!", *more))
    assert shapes(ours)["producer_send_error"] == shapes(java)["producer_send_error"]
    failed = [event["value"] for event in ours if event["name"] == "producer_send_error"]
    assert failed == ["0", "1"]
    assert (ours[-1]["sent"], ours[-1]["acked"]) == (2, 0)


def test_the_consumer_tells_what_java_tells(bootstrap_servers: str, topic: str) -> None:
    events_of(tool("java", "Producer", bootstrap_servers, topic, "--max-messages", "5"))
    more = ("--max-messages", "5", "--verbose", "--group-id")
    java = events_of(tool("java", "Consumer", bootstrap_servers, topic, *more, new_name()))
    ours = events_of(tool("ours", "Consumer", bootstrap_servers, topic, *more, new_name()))
    java = [event for event in java if event["name"] != "shutdown_requested"]  # by its own exit
    assert shapes(ours) == shapes(java)
    assert [event["name"] for event in ours] == [event["name"] for event in java]

    def told(events: list[Event], name: str) -> list[Event]:
        return [{**event, "timestamp": 0} for event in events if event["name"] == name]

    for name in ("record_data", "records_consumed", "offsets_committed", "partitions_assigned"):
        assert told(ours, name) == told(java, name)


def test_the_producer_ends_by_sigterm(bootstrap_servers: str, topic: str) -> None:
    with running(
        tool("ours", "Producer", bootstrap_servers, topic, "--throughput", "200")
    ) as process:
        read_until(process, "producer_send_success")
        events = ended_by_sigterm(process)
    assert [event["name"] for event in events[-2:]] == ["shutdown_complete", "tool_data"]
    assert events[-1]["sent"] == events[-1]["acked"] > 0
    assert events[-1]["target_throughput"] == 200


def test_the_consumer_ends_by_sigterm(bootstrap_servers: str, topic: str) -> None:
    group = new_name("group")
    events_of(tool("ours", "Producer", bootstrap_servers, topic, "--max-messages", "5"))
    consume = tool("ours", "Consumer", bootstrap_servers, topic, "--group-id", group)
    with running(consume) as process:
        assert read_until(process, "offsets_committed")["offsets"][0]["offset"] == 5
        names = [event["name"] for event in ended_by_sigterm(process)]
    assert names == ["shutdown_requested", "partitions_revoked", "shutdown_complete"]
    events_of(tool("ours", "Producer", bootstrap_servers, topic, "--max-messages", "1"))
    again = events_of([*consume, "--max-messages", "1", "--verbose"])
    assert [event["offset"] for event in again if event["name"] == "record_data"] == [5]


def test_a_member_of_ours_and_one_of_javas_share_a_topic(bootstrap_servers: str) -> None:
    topic, group = new_name(), new_name("group")
    create_topic(bootstrap_servers, topic, partitions=4)
    more = ("--group-id", group, "--session-timeout", "6000")
    with running(tool("ours", "Consumer", bootstrap_servers, topic, *more)) as first:
        assert len(read_until(first, "partitions_assigned")["partitions"]) == 4
        with running(tool("java", "Consumer", bootstrap_servers, topic, *more)) as second:
            assert len(read_until(second, "partitions_assigned")["partitions"]) == 2
            assert len(read_until(first, "partitions_assigned")["partitions"]) == 2
