"""Runs a small Java program of ours over the jars of a Kafka version."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kclient.testing import jars
from kclient.testing.toolchain import java_command

TIMEOUT = 240.0
"""Seconds for one program to compile and answer."""


def run_java(version: str, source: Path, stdin: str) -> list[str]:
    """The lines that the program of one file prints when it is given ``stdin``."""
    command = [java_command(), "-Xmx1g", "-cp", jars.classpath(version), str(source)]
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()
