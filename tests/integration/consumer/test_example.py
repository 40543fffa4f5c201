"""The example of a service, run as a person would run it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from kclient.testing import LocalKafka

from ..exchange import new_name
from .steps import new_topic, write

ROOT = Path(__file__).resolve().parents[3]


def start(servers: str, topic: str, group: str, *more: str) -> subprocess.Popen[str]:
    script = str(ROOT / "examples" / "consumer_loop.py")
    return subprocess.Popen(
        [sys.executable, script, servers, topic, "--group", group, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_consumer_loop(local_kafka: LocalKafka) -> None:
    servers, group = local_kafka.bootstrap_servers, new_name("group")
    topic = new_topic(servers)
    write(servers, topic, [b"one", b"\xff not text", b"two", b"three", b"four"])
    first = start(servers, topic, group, "--limit", "2")
    shown, log = first.communicate(timeout=60)
    assert first.returncode == 0, log
    assert shown.splitlines() == [f"{topic}[0] 0: 'one'", f"{topic}[0] 2: 'two'"]
    assert "skipped" in log
    second = start(servers, topic, group)
    try:
        assert second.stdout is not None
        lines = [second.stdout.readline() for _ in range(2)]
    finally:
        second.send_signal(signal.SIGTERM)
        _, log = second.communicate(timeout=60)
    assert lines == [f"{topic}[0] 3: 'three'\n", f"{topic}[0] 4: 'four'\n"]
    assert second.returncode == 0, log
    assert "2 records" in log
    assert f"revoked: {topic}[0]" in log
