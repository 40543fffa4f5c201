"""The examples run as a person would run them, against a real broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .exchange import new_name
from .producer.reading import create_topic, read_all

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=120)


def test_the_demo_takes_orders_there_and_back() -> None:
    done = run("demo.py", "--orders", "5000")
    assert done.returncode == 0, done.stderr
    assert "75 APIs negotiated" in done.stdout
    assert "5000 orders acknowledged" in done.stdout
    assert "5000 orders read back" in done.stdout


def test_lines_are_sent_and_receipts_written_exactly_once(bootstrap_servers: str) -> None:
    source = create_topic(bootstrap_servers, new_name("orders"), 2)
    target = create_topic(bootstrap_servers, new_name("receipts"), 2)
    given = "".join(f"order {number}\n" for number in range(300))
    done = run("send_lines.py", bootstrap_servers, source, given=given)
    assert (done.stdout, done.stderr) == ("300 lines acknowledged\n", "")
    done = run("read_process_write.py", bootstrap_servers, source, target, "--count", "300")
    assert done.stdout == "300 records\n", done.stderr
    found = sorted(record.value or b"" for record in read_all(bootstrap_servers, target))
    assert found == sorted(b"received: order %d" % number for number in range(300))
