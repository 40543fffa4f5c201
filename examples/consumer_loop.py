"""A service that reads a topic as a member of a group until it is told to stop.

    python examples/consumer_loop.py localhost:9092 orders --group billing

Each record is dealt with before it is committed, so a crash loses nothing. SIGTERM and Ctrl-C
end the loop after the record at hand; run several of these, and they share the partitions.
"""

from __future__ import annotations

import argparse
import logging
import signal

from kclient import Consumer, Record, TopicPartition
from kclient.errors import SerializationError


def handle(record: Record) -> None:
    """The work."""
    print(f"{record.topic}[{record.partition}] {record.offset}: {record.value!r}", flush=True)


def told(what: str, tps: list[TopicPartition]) -> None:
    """Partitions come and go as members do."""
    logging.info("%s: %s", what, ", ".join(f"{tp.topic}[{tp.partition}]" for tp in tps) or "none")


def run(consumer: Consumer, limit: int) -> int:
    """Deal with records until somebody calls ``wakeup``, or there were ``limit``; how many."""
    count = 0
    while True:
        try:
            for record in consumer:
                handle(record)
                count += 1
                if count == limit:
                    consumer.commit()  # the loop is left: the current record is done, too
                    return count
            return count
        except SerializationError as error:
            context = vars(error)
            logging.warning("skipped: %s", error)
            tp = TopicPartition(context["topic"], context["partition"])
            consumer.seek(tp, context["offset"] + 1)


def main() -> None:
    """Read the command line, and run until it is over."""
    parser = argparse.ArgumentParser(description="Read a topic as a member of a group.")
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("--group", default="example")
    parser.add_argument("--limit", type=int, default=0, help="stop after so many records")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with Consumer(
        options.servers,
        group_id=options.group,
        auto_offset_reset="earliest",
        value_deserializer=bytes.decode,
    ) as consumer:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: consumer.wakeup())
        consumer.subscribe(
            options.topic,
            on_assigned=lambda tps: told("assigned", tps),
            on_revoked=lambda tps: told("revoked", tps),
            on_lost=lambda tps: told("lost", tps),
        )
        logging.info("%d records", run(consumer, options.limit))


if __name__ == "__main__":
    main()
