"""Move a topic of Kafka 0.7 to today's Kafka: nothing lost, nothing doubled, however it is stopped.

    python examples/migrate_07.py old-broker:9092 orders --partitions 4 --to new:9092

Each fetch from the old broker is written in one transaction, together with the place in the old
log where the next one begins: an offset committed for a group named after the source. So a run
that was killed at any moment is just started again, and goes on from there; a second run beside
it fences the first. Read what was written with ``isolation_level="read_committed"``.

0.7 had no keys: partition ``n`` of the old broker goes to partition ``n`` of the new topic
(modulo their number), which keeps the order. A 0.7 broker cannot say how many partitions a topic
has (ZooKeeper knew): count its folders named ``topic-0``, ``topic-1`` and so on, and run this once
for each broker. Kafka forgets offsets of a group that nobody uses after
``offsets.retention.minutes`` (7 days): do not pause for longer. ``--dry-run`` reads everything,
checks every checksum and counts, and writes nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from kclient import (
    Consumer,
    GroupMetadata,
    OffsetAndMetadata,
    Producer,
    ProducerRecord,
    TopicPartition,
)
from kclient.errors import KafkaError
from kclient.kafka07 import EARLIEST, LATEST, Client, Message

Advance = Callable[[int, int], None]
"""Told of progress: the byte of the old log that was reached, and how many messages came."""


class Source(NamedTuple):
    """One partition of one old broker."""

    broker: str
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.broker}/{self.topic}/{self.partition}"

    @property
    def name(self) -> str:
        """The transactional id, and the group that keeps the place."""
        return f"migrate-07/{self}"


class Target:
    """Where one partition goes, and where its place is kept."""

    def __init__(self, servers: str, topic: str, source: Source) -> None:
        self._servers = servers
        self._topic = topic
        self._group = GroupMetadata(source.name)
        self._place = TopicPartition(topic, 0)  # any partition that exists does
        self._producer = Producer(servers, transactional_id=source.name)
        self._partition = source.partition

    def resume(self) -> int | None:
        """The byte of the old log to go on from, None if this is the beginning."""
        # First, for it ends the transaction that a killed run has left open.
        self._producer.init_transactions()
        self._partition %= len(self._producer.partitions_for(self._topic))
        with Consumer(
            self._servers, group_id=self._group.group_id, isolation_level="read_committed"
        ) as consumer:
            found = consumer.committed([self._place])[self._place]
        return None if found is None else found.offset

    def write(self, messages: list[Message], next_offset: int) -> None:
        """Write messages and the place behind them: both or neither."""
        records = [
            ProducerRecord(self._topic, message.payload, partition=self._partition)
            for message in messages
        ]
        with self._producer.transaction():
            self._producer.send_many(self._topic, records)
            place = OffsetAndMetadata(next_offset, "byte of a Kafka 0.7 log")
            self._producer.send_offsets_to_transaction({self._place: place}, self._group)

    def close(self) -> None:
        """Close the connections."""
        self._producer.close()


def migrate(
    client: Client, source: Source, target: Target | None, max_size: int, advance: Advance
) -> int:
    """Move one partition to its end, or without a target only read it; return the count."""
    count = 0
    offset = None if target is None else target.resume()
    if offset is None:
        offset = first_offset(client, source)
    while True:
        found = client.fetch(source.topic, source.partition, offset, max_size=max_size)
        if found.next_offset == offset:
            return count
        if target is not None:
            target.write(list(found), found.next_offset)
        offset = found.next_offset
        count += len(found)
        advance(offset, len(found))


def first_offset(client: Client, source: Source) -> int:
    """The first byte that the old broker still has."""
    return (client.offsets(source.topic, source.partition, EARLIEST) or [0])[0]


@contextmanager
def progress(source: Source, client: Client) -> Iterator[Advance]:
    """A bar on a terminal, if rich is installed; else a line a second."""
    end = (client.offsets(source.topic, source.partition, LATEST) or [0])[0]
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        is_bar = False
    else:
        is_bar = Console().is_terminal
    if not is_bar:
        yield lines(source, end)
        return
    with Progress() as bars:
        task = bars.add_task(str(source), total=end)
        yield lambda offset, count: bars.update(task, completed=offset)


def lines(source: Source, end: int) -> Advance:
    """Print how far it is, at most once a second, and at the end."""
    due, total = time.monotonic(), 0

    def advance(offset: int, count: int) -> None:
        nonlocal due, total
        total += count
        if offset >= end or time.monotonic() >= due:
            print(f"{source}: {total} messages, at byte {offset} of {end}", flush=True)
            due = time.monotonic() + 1

    return advance


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line; wrong usage ends the program with one line that says so."""
    parser = argparse.ArgumentParser(description="Move a topic of Kafka 0.7 to today's Kafka.")
    parser.add_argument("broker", help="the 0.7 broker, host:port")
    parser.add_argument("topic", help="the topic to read")
    parser.add_argument("--partitions", type=int, default=1, help="partitions there (default 1)")
    parser.add_argument("--to", metavar="SERVERS", help="bootstrap servers of today's Kafka")
    parser.add_argument("--to-topic", help="the topic to write (default: the same name)")
    parser.add_argument("--max-size", type=int, default=1 << 20, help="bytes a fetch (1 MiB)")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds a request (30)")
    parser.add_argument("--dry-run", action="store_true", help="read and count, write nothing")
    options = parser.parse_args(arguments)
    options.host, _, port = options.broker.rpartition(":")
    if not options.host or not port.isdecimal():
        parser.error(f"the broker is given as host:port, not {options.broker!r}")
    options.port = int(port)
    if not options.to and not options.dry_run:
        parser.error("say where to write with --to host:9092, or add --dry-run")
    return options


def run(options: argparse.Namespace) -> int:
    """Move all partitions; return how many messages."""
    total = 0
    with Client(options.host, options.port, timeout=options.timeout) as client:
        for partition in range(options.partitions):
            source = Source(options.broker, options.topic, partition)
            target = None
            if not options.dry_run:
                target = Target(options.to, options.to_topic or options.topic, source)
            try:
                with progress(source, client) as advance:
                    total += migrate(client, source, target, options.max_size, advance)
            finally:
                if target is not None:
                    target.close()
    return total


def main(arguments: list[str] | None = None) -> int:
    """Move and count; the exit code is 1 if something failed, 130 after Ctrl-C."""
    options = parse(arguments)
    try:
        total = run(options)
    except KafkaError as error:
        print(f"stopped: {error}; start it again to go on", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; start it again to go on", file=sys.stderr)
        return 130
    done = "none written (dry run)" if options.dry_run else "all written"
    print(f"{total} messages read, {done}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
