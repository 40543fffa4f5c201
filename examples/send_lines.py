"""Sends each line of a file, or of standard input, to a topic.

    python examples/send_lines.py localhost:9092 orders < orders.txt

A slow input is sent as it comes; memory stays bounded however long it is.
"""

from __future__ import annotations

import argparse
import sys

from kclient import Producer
from kclient.errors import DeliveryError, KafkaError


def main() -> int:
    """Send, and say how it went."""
    parser = argparse.ArgumentParser(description="Send lines to a topic.")
    parser.add_argument("bootstrap_servers")
    parser.add_argument("topic")
    parser.add_argument("file", nargs="?", type=argparse.FileType("rb"), default=sys.stdin.buffer)
    options = parser.parse_args()
    lines = (line.rstrip(b"\n") for line in options.file)
    try:
        with Producer(options.bootstrap_servers, compression_type="lz4") as producer:
            report = producer.send_many(options.topic, lines)
    except DeliveryError as error:
        for failure in error.failures:
            print(f"{failure.topic}[{failure.partition}]: {failure.count} lines: {failure.error}")
        return 1
    except KafkaError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{report.count} lines acknowledged")
    return 0


if __name__ == "__main__":
    sys.exit(main())
