"""What the verifiable tools share: events as lines of JSON, options of both, and the way to end."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

_lock = threading.Lock()  # guards stdout: callbacks tell from another thread


def tell(name: str, **fields: Any) -> None:
    """Print an event at once, as a line with its time in ms since the epoch."""
    event = {"timestamp": time.time_ns() // 1_000_000, "name": name, **fields}
    with _lock:
        sys.stdout.write(json.dumps(event, separators=(",", ":")) + "\n")
        sys.stdout.flush()


def parser(about: str) -> argparse.ArgumentParser:
    """A parser with the options that both tools have."""
    made = argparse.ArgumentParser(description=about)
    made.add_argument(
        "--bootstrap-server", "--broker-list", required=True, dest="bootstrap_servers"
    )
    made.add_argument("--topic", required=True)
    made.add_argument("--max-messages", type=int, default=-1, help="-1 (the default): no end")
    made.add_argument(
        "--command-config",
        "--producer.config",
        "--consumer.config",
        dest="properties",
        help="a properties file; what is given on the command line wins",
    )
    return made


def on_termination(stop: Callable[[], object]) -> None:
    """Have SIGTERM and SIGINT call ``stop``, which lets the main thread come to its end."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())


def text(data: bytes | None) -> str | None:
    """Bytes for JSON; what is no UTF-8 is replaced."""
    return None if data is None else data.decode(errors="replace")
