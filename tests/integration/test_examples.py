"""The examples run as a person would run them, against a real broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_demo_takes_orders_there_and_back() -> None:
    done = run("demo.py", "--orders", "5000")
    assert done.returncode == 0, done.stderr
    assert "75 APIs negotiated" in done.stdout
    assert "5000 orders acknowledged" in done.stdout
    assert "5000 orders read back" in done.stdout
