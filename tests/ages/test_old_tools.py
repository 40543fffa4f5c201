"""Old message formats against the tools of their time: they read ours, and we read theirs."""

from __future__ import annotations

import subprocess

import pytest

from kclient import ProducerRecord, TopicPartition
from kclient.testing.jars import classpath
from kclient.testing.toolchain import java_command

from .age import Age, new_name

CODECS = ("none", "gzip", "snappy", "lz4")  # lz4 was framed wrongly before 0.10
OLD_PRODUCER = {"0.8.2.2": (), "0.9.0.1": ("--old-producer",), "0.10.2.2": ()}
"""The new producer of 0.9's console loses records when its input ends at once."""

pytestmark = pytest.mark.parametrize(
    "age",
    [
        pytest.param("0.8.2.2", marks=pytest.mark.every_kafka),
        "0.9.0.1",
        pytest.param("0.10.2.2", marks=pytest.mark.every_kafka),
    ],
    indirect=True,
)


def run_tool(age: Age, name: str, *arguments: str, text: str = "") -> list[str]:
    """The lines that a tool of the broker's own version prints."""
    command = [java_command(), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classpath(age.version)]
    done = subprocess.run(
        [*command, f"kafka.tools.{name}", "--broker-list", age.servers, *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_their_tools_and_we_read_each_other(age: Age) -> None:
    for codec in CODECS:
        check_they_read_ours(age, codec)
        check_we_read_theirs(age, codec)


def check_they_read_ours(age: Age, codec: str) -> None:
    values = [f"{codec} {'x' * number}" for number in (1, 100, 3_000)]
    records = [ProducerRecord("", value.encode(), b"key") for value in values]
    tp = age.write(records, None if codec == "none" else codec)
    printed = run_tool(
        age,
        "SimpleConsumerShell",
        *("--topic", tp.topic, "--partition", "0", "--no-wait-at-logend"),
        *("--property", "print.key=true"),
    )
    assert printed[:3] == [f"key\t{value}" for value in values]


def check_we_read_theirs(age: Age, codec: str) -> None:
    topic = new_name()
    values = [f"{codec} {'x' * number}" for number in (1, 100, 3_000)]
    run_tool(
        age,
        "ConsoleProducer",
        *("--topic", topic, "--compression-codec", codec, "--property", "parse.key=true"),
        *OLD_PRODUCER[age.version],
        text="".join(f"key\t{value}\n" for value in values),
    )
    got = age.read(TopicPartition(topic, 0), len(values))
    assert [(one.key, one.value) for one in got] == [(b"key", each.encode()) for each in values]
