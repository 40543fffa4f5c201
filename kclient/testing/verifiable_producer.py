"""The producer that Apache Kafka's system tests drive: increasing numbers, events on stdout.

``python -m kclient.testing.verifiable_producer --bootstrap-server a:9092 --topic t``

Options and events are those of Kafka's own ``kafka-verifiable-producer.sh``:
``startup_complete``, then ``producer_send_success`` or ``producer_send_error`` for each record,
``shutdown_complete`` and at last ``tool_data`` with the sums. SIGTERM ends it: what was sent is
waited for.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import Future
from contextlib import suppress

from kclient.errors import DeliveryError, KafkaError
from kclient.producer import Producer
from kclient.testing.events import on_termination, parser, tell, text
from kclient.types import RecordMetadata

_LONGEST_SLEEP = 0.1


class VerifiableProducer:
    """Sends until ``max_messages`` or ``stop``, and counts."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.is_stopping = False
        """Set by a signal's handler: a plain flag, for an Event's lock may be held just then."""
        self._options = options
        self._sent = self._acked = 0
        self._producer = Producer.from_properties(
            options.properties or {},
            bootstrap_servers=options.bootstrap_servers,
            acks=options.acks,
        )

    def stop(self) -> None:
        """End soon; from a signal's handler."""
        self.is_stopping = True

    def run(self) -> None:
        """Send, close, and tell the sums."""
        started = time.monotonic()
        tell("startup_complete")
        try:
            while not self._is_over():
                self._send()
                while not self._is_over() and (pause := self._pause(time.monotonic() - started)):
                    time.sleep(min(pause, _LONGEST_SLEEP))
        finally:
            self._close()
        elapsed = time.monotonic() - started
        tell(
            "tool_data",
            sent=self._sent,
            acked=self._acked,
            target_throughput=self._options.throughput,
            avg_throughput=self._acked / elapsed,
        )

    def _is_over(self) -> bool:
        limit = self._options.max_messages
        return self.is_stopping or (0 <= limit <= self._sent)

    def _pause(self, elapsed: float) -> float:
        """Seconds until the next record is due."""
        rate = self._options.throughput
        return max(0.0, self._sent / rate - elapsed) if rate > 0 else 0.0

    def _send(self) -> None:
        options, number = self._options, self._sent
        prefix = "" if options.value_prefix is None else f"{options.value_prefix}."
        value = f"{prefix}{number}".encode()
        repeat = options.repeating_keys
        key = None if repeat is None else b"%d" % (number % repeat)
        start = options.message_create_time
        stamp = None if start < 0 else start + number
        self._sent += 1
        try:
            future = self._producer.submit(options.topic, value, key=key, timestamp_ms=stamp)
        except KafkaError as error:
            self._note_error(key, value, error)
        else:
            future.add_done_callback(lambda done: self._note(key, value, done))

    def _note(self, key: bytes | None, value: bytes, done: Future[RecordMetadata]) -> None:
        """Called by the thread that does the producer's I/O."""
        error = done.exception()
        if error is not None:
            self._note_error(key, value, error)
            return
        where = done.result()
        self._acked += 1
        tell(
            "producer_send_success",
            key=text(key),
            value=text(value),
            offset=where.offset,
            topic=where.topic,
            partition=where.partition,
        )

    def _note_error(self, key: bytes | None, value: bytes, error: BaseException) -> None:
        tell(
            "producer_send_error",
            topic=self._options.topic,
            key=text(key),
            value=text(value),
            exception=f"{type(error).__module__}.{type(error).__qualname__}",
            message=str(error),
        )

    def _close(self) -> None:
        with suppress(DeliveryError):  # each record's own callback has told why
            self._producer.close()
        tell("shutdown_complete")


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit code is 0, or 2 for wrong usage."""
    options_parser = parser("Send increasing numbers to a topic; tell of each on stdout.")
    add = options_parser.add_argument
    add("--throughput", type=int, default=-1, help="records a second; -1 (the default): no limit")
    add("--acks", type=int, default=-1, choices=(-1, 0, 1))
    add("--message-create-time", type=int, default=-1, help="the first timestamp, in ms")
    add("--value-prefix", type=int, help="a number to put before each value, and a dot")
    add("--repeating-keys", type=int, help="so many keys, from 0, over and over")
    tool = VerifiableProducer(options_parser.parse_args(arguments))
    on_termination(tool.stop)
    tool.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
