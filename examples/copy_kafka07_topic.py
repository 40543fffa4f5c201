"""Copy a topic of Kafka 0.7 into today's Kafka, partition by partition, oldest message first.

    python examples/copy_kafka07_topic.py old-broker:9092 orders --partitions 4 --to new:9092

Payloads are written without keys (0.7 had none), each batch acknowledged before the next is
read. ``--dry-run`` reads everything, checks every checksum and counts, and writes nothing.

A 0.7 broker cannot say how many partitions a topic has (ZooKeeper knew): count its folders
named ``topic-0``, ``topic-1`` and so on, and run this once for each broker. ``--from-offset``
goes on where a stopped copy of one partition printed that it was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice

from kclient import Producer
from kclient.errors import KafkaError
from kclient.kafka07 import Client, Message

BATCH = 1000


def batches(messages: Iterator[Message]) -> Iterator[list[Message]]:
    """Yield the messages in lists of up to BATCH, so that memory stays small."""
    while batch := list(islice(messages, BATCH)):
        yield batch


def copy_partition(
    client: Client, producer: Producer | None, options: argparse.Namespace, partition: int
) -> int:
    """Copy one partition to its end, telling progress after each batch; return the count."""
    count = size = 0
    messages = client.consume(
        options.topic, partition, options.from_offset, max_size=options.max_size
    )
    for batch in batches(messages):
        if producer is not None:
            payloads = [message.payload for message in batch]
            producer.send_many(options.to_topic or options.topic, payloads)
        count += len(batch)
        size += sum(len(message.payload) for message in batch)
        # A compressed message may straddle two batches: only its start is safe to resume from.
        print(f"{options.topic}/{partition}: {count} messages, {size} bytes, at {batch[-1].offset}")
    return count


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line; wrong usage ends the program with one line that says so."""
    parser = argparse.ArgumentParser(description="Copy a topic of Kafka 0.7 into today's Kafka.")
    parser.add_argument("broker", help="the 0.7 broker, host:port")
    parser.add_argument("topic", help="the topic to read")
    parser.add_argument("--partitions", type=int, default=1, help="partitions there (default 1)")
    parser.add_argument("--to", metavar="SERVERS", help="bootstrap servers of today's Kafka")
    parser.add_argument("--to-topic", help="the topic to write (default: the same name)")
    parser.add_argument("--from-offset", type=int, help="start here, with --partitions 1")
    parser.add_argument("--max-size", type=int, default=1 << 20, help="bytes a fetch (1 MiB)")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds a request (30)")
    parser.add_argument("--dry-run", action="store_true", help="read and count, write nothing")
    options = parser.parse_args(arguments)
    options.host, _, port = options.broker.rpartition(":")
    if not options.host or not port.isdecimal():
        parser.error(f"the broker is given as host:port, not {options.broker!r}")
    options.port = int(port)
    if options.from_offset is not None and options.partitions != 1:
        parser.error("--from-offset is for one partition")
    if not options.to and not options.dry_run:
        parser.error("say where to write with --to host:9092, or add --dry-run")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Copy and count; the exit code is 1 if something failed."""
    options = parse(arguments)
    try:
        with ExitStack() as stack:
            client = stack.enter_context(
                Client(options.host, options.port, timeout=options.timeout)
            )
            producer = None if options.dry_run else stack.enter_context(Producer(options.to))
            total = sum(
                copy_partition(client, producer, options, partition)
                for partition in range(options.partitions)
            )
    except KafkaError as error:
        print(f"stopped: {error}", file=sys.stderr)
        return 1
    print(
        f"{total} messages read, {'none written (dry run)' if options.dry_run else 'all written'}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
