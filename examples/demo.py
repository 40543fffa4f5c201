"""Starts a real Kafka, says what it speaks, and takes orders through it and back.

    python examples/demo.py [--orders 100000]

Everything runs on this machine; nothing is left behind.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator

from kclient import Admin, Consumer, Producer
from kclient.protocol import APIS
from kclient.testing import LocalKafka

TOPIC, PARTITIONS = "orders", 4
PRODUCTS = ("tea", "coffee", "cocoa", "mate")
STEP = 10_000


def print_apis(admin: Admin) -> None:
    """Print each API that the broker and kclient both speak, and the version they use."""
    (spoken,) = admin.api_versions().values()
    ours = {api.name: api for api in APIS.values()}
    print(f"{'key':>4} {'api':<32} {'broker':>8} {'kclient':>8} {'use':>4}")
    for name, theirs in sorted(spoken.items(), key=lambda row: ours[row[0]].key):
        api = ours[name]
        broker, mine = "{}-{}".format(*theirs), "{}-{}".format(*api.versions)
        print(f"{api.key:>4} {name:<32} {broker:>8} {mine:>8} {min(theirs[1], api.stable):>4}")
    print(f"{len(spoken)} APIs negotiated")


def orders(count: int) -> Iterator[tuple[bytes, bytes]]:
    """Make up orders as keys and JSON, telling progress on a terminal."""
    rng = random.Random(1)
    for number in range(count):
        product = rng.choice(PRODUCTS)
        order = {"order": number, "product": product, "cents": rng.randrange(100, 2000)}
        yield b"%d" % (number % 1000), json.dumps(order).encode()
        if number % STEP == 0 and sys.stdout.isatty():
            print(f"\r{number:>9} of {count} orders sent", end="", flush=True)


def produce(servers: str, count: int) -> None:
    """Send the orders, and say how fast."""
    begin = time.perf_counter()
    with Producer(servers, compression_type="lz4") as producer:
        report = producer.send_many(TOPIC, orders(count))
    seconds = time.perf_counter() - begin
    print(f"\r{report.count:>9} orders acknowledged in {seconds:.1f} s")


def consume(servers: str, count: int) -> Counter[str]:
    """Read them back as a group, and add the revenue up by product."""
    revenue: Counter[str] = Counter()
    begin, left = time.perf_counter(), count
    with Consumer(servers, group_id="billing", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([TOPIC])
        while left:
            records = consumer.poll(timeout=30.0, max_records=5_000)
            if not records:
                raise SystemExit(f"{left} orders did not come back")
            for record in records:
                order = json.loads(record.value or b"{}")
                revenue[order["product"]] += order["cents"]
            left -= len(records)
        consumer.commit()
    print(f"{count:>9} orders read back in {time.perf_counter() - begin:.1f} s")
    return revenue


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description="A Kafka on this machine, there and back.")
    parser.add_argument("--orders", type=int, default=100_000, help="how many (100000)")
    count = parser.parse_args().orders
    with LocalKafka() as kafka:
        servers = kafka.bootstrap_servers
        with Admin(servers) as admin:
            print_apis(admin)
            admin.create_topic(TOPIC, num_partitions=PARTITIONS)
        produce(servers, count)
        for product, cents in sorted(consume(servers, count).items()):
            print(f"{product:>12} {cents / 100:>14,.2f}")


if __name__ == "__main__":
    main()
