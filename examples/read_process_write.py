"""Reads a topic, and writes what becomes of each record to another: exactly once.

    python examples/read_process_write.py localhost:9092 orders receipts

What is written and how far was read count together or not at all. Kill it at any moment and
start it again: no order has two receipts, none is left without. Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
import contextlib

from kclient import Consumer, Producer, Record
from kclient.errors import TransactionFailed, TransactionLost


def receipt(order: Record) -> bytes:
    """What is written for a record; raise, and the whole transaction is tried again."""
    return b"received: " + (order.value or b"nothing")


def copy_some(consumer: Consumer, producer: Producer, target: str) -> int:
    """One transaction; returns how many records it was about."""
    orders = consumer.poll(timeout=1.0)
    if orders:
        with producer.transaction(consumer):
            for order in orders:
                producer.submit(target, receipt(order), key=order.key)
    return len(orders)


def main() -> None:
    """Copy until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Read, process, write, exactly once.")
    parser.add_argument("bootstrap_servers")
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--count", type=int, default=0, help="end after so many records")
    options = parser.parse_args()
    servers, done = options.bootstrap_servers, 0
    consumer = Consumer(
        servers,
        group_id=f"receipts-of-{options.source}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    # A name of its own for each process that runs at the same time; the same after a restart,
    # so that what the last run left open is aborted.
    with consumer, Producer(servers, transactional_id="receipts-1") as producer:
        consumer.subscribe([options.source])
        with contextlib.suppress(KeyboardInterrupt):
            while not options.count or done < options.count:
                try:
                    done += copy_some(consumer, producer, options.target)
                except TransactionLost:
                    raise  # another process has taken over
                except TransactionFailed as error:
                    print(f"tried again: {error}")
    print(f"{done} records")


if __name__ == "__main__":
    main()
