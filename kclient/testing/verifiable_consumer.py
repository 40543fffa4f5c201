"""The consumer that Apache Kafka's system tests drive: a member of a group, events on stdout.

``python -m kclient.testing.verifiable_consumer --bootstrap-server a:9092 --topic t --group-id g``

Options and events are those of Kafka's own ``kafka-verifiable-consumer.sh``:
``startup_complete``, ``partitions_assigned``, ``partitions_revoked``, ``records_consumed``,
``offsets_committed``, with ``--verbose`` a ``record_data`` for each record, and at last
``shutdown_complete``. SIGTERM (``shutdown_requested``) ends it: it commits and leaves.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from kclient.config.consumer import read_assignors
from kclient.consumer import Consumer
from kclient.errors import KafkaError
from kclient.testing.events import on_termination, parser, tell, text
from kclient.types import Record, TopicPartition

_POLL_SECONDS = 1.0
_MANY = 500


class VerifiableConsumer:
    """Reads and commits until ``max_messages`` or ``stop``."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._left = options.max_messages
        self._is_stopping = False
        self._consumer = Consumer.from_properties(options.properties or {}, **_given(options))

    def stop(self) -> None:
        """Come to an end, soon; for a signal handler."""
        tell("shutdown_requested")
        self._is_stopping = True
        self._consumer.wakeup()

    def run(self) -> None:
        """Read until it is over, then leave the group."""
        tell("startup_complete")
        try:
            self._consumer.subscribe(
                [self._options.topic],
                on_assigned=lambda tps: tell("partitions_assigned", partitions=_places(tps)),
                on_revoked=lambda tps: tell("partitions_revoked", partitions=_places(tps)),
                on_lost=lambda tps: tell("partitions_revoked", partitions=_places(tps)),
            )
            while not self._is_stopping and self._left != 0:
                limit = self._left if self._left > 0 else _MANY
                self._take(self._consumer.poll(_POLL_SECONDS, max_records=limit))
        finally:
            self._consumer.close()
            tell("shutdown_complete")

    def _take(self, records: list[Record]) -> None:
        if not records:
            return
        if self._left > 0:
            self._left -= len(records)
        if self._options.verbose:
            for record in records:
                _tell_record(record)
        offsets: dict[TopicPartition, list[int]] = {}
        for record in records:
            tp = TopicPartition(record.topic, record.partition)
            offsets.setdefault(tp, []).append(record.offset)
        parts = [
            {**_place(tp), "count": len(some), "minOffset": min(some), "maxOffset": max(some)}
            for tp, some in offsets.items()
        ]
        tell("records_consumed", count=len(records), partitions=parts)
        if not self._options.enable_autocommit:
            self._commit({tp: max(some) + 1 for tp, some in offsets.items()})

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        listed = [{**_place(tp), "offset": offset} for tp, offset in offsets.items()]
        try:
            self._consumer.commit(offsets)
        except KafkaError as error:
            tell("offsets_committed", offsets=listed, error=str(error), success=False)
        else:
            tell("offsets_committed", offsets=listed, success=True)


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """The consumer's options that the command line speaks of."""
    given = {
        "bootstrap_servers": options.bootstrap_servers,
        "group_id": options.group_id,
        "group_protocol": options.group_protocol.lower(),
        "group_instance_id": options.group_instance_id,
        "group_remote_assignor": options.group_remote_assignor,
        "auto_offset_reset": options.reset_policy,
        "enable_auto_commit": options.enable_autocommit,
        "partition_assignment_strategy": read_assignors(options.assignment_strategy),
        "session_timeout_ms": options.session_timeout,
    }
    return {name: value for name, value in given.items() if value is not None}


def _place(tp: TopicPartition) -> dict[str, Any]:
    return {"topic": tp.topic, "partition": tp.partition}


def _places(tps: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [_place(tp) for tp in sorted(tps)]


def _tell_record(record: Record) -> None:
    place = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
    tell("record_data", key=text(record.key), value=text(record.value), **place)


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit code is 0, or 2 for wrong usage."""
    options_parser = parser("Read a topic as a member of a group; tell of all on stdout.")
    add = options_parser.add_argument
    add("--group-id", required=True)
    add("--group-protocol", default="classic", help="classic (the default) or consumer")
    add("--group-remote-assignor", help="with the consumer protocol")
    add("--group-instance-id", help="for static membership")
    add("--session-timeout", type=int, metavar="MS")
    add("--verbose", action="store_true", help="tell of each record")
    add("--enable-autocommit", action="store_true")
    add("--reset-policy", default="earliest", choices=("earliest", "latest", "none"))
    add("--assignment-strategy", default="range", help="names, or Java's classes, by commas")
    tool = VerifiableConsumer(options_parser.parse_args(arguments))
    on_termination(tool.stop)
    tool.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
