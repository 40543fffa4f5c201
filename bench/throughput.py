"""Producing and consuming beside the peers: same records, same broker, turn by turn.

    python -m bench.throughput [produce] [consume] [latency] [--quick] [--rounds 5] [--size 100]

Ratios are to confluent-kafka, of medians over the rounds; CPU is the client's own, per million
records. Fewer than 3 rounds give no ratio. Results go to bench/results as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kclient import Admin, Producer
from kclient.testing import LocalKafka

RESULTS = Path(__file__).with_name("results")
PARTITIONS = 4
LEAST_ROUNDS = 3


class Lane(NamedTuple):
    """A client in a table: its name there, the worker's function, and which twin to force."""

    title: str
    worker: str
    twin: str = ""
    share: float = 1.0
    """How much of the records it gets: slow ones would take minutes."""


REFERENCE = "confluent-kafka"
PRODUCE = (
    Lane(REFERENCE, "confluent_produce"),
    Lane("kclient send_many", "kclient_send_many"),
    Lane("kclient submit", "kclient_submit"),
    Lane("kclient send_many, pure Python", "kclient_send_many", "python"),
    Lane("kclient submit, pure Python", "kclient_submit", "python"),
    Lane("aiokafka", "aiokafka_produce", share=0.1),
    Lane("kafka-python", "kafka_python_produce", share=0.05),
)
CONSUME = (
    Lane(REFERENCE, "confluent_consume"),
    Lane("kclient poll", "kclient_poll"),
    Lane("kclient iteration", "kclient_iterate"),
    Lane("kclient poll_arrow", "kclient_arrow"),
    Lane("kclient poll in a group", "kclient_group"),
    Lane("confluent-kafka in a group", "confluent_group"),
    Lane("kclient poll, pure Python", "kclient_poll", "python"),
    Lane("aiokafka", "aiokafka_consume"),
    Lane("kafka-python", "kafka_python_consume", share=0.2),
)
LATENCY = (
    Lane(REFERENCE, "confluent_send"),
    Lane("kclient send", "kclient_send"),
    Lane("kclient send, pure Python", "kclient_send", "python"),
    Lane("kafka-python", "kafka_python_send"),
)


def run_worker(lane: Lane, servers: str, topic: str, count: int, size: int) -> dict[str, float]:
    """One client once, in a process of its own."""
    environment = {**os.environ, **({"KCLIENT_IMPL": lane.twin} if lane.twin else {})}
    command = [sys.executable, "-m", "bench.workers", lane.worker, servers, topic]
    done = subprocess.run(
        [*command, str(count), str(size)],
        capture_output=True,
        text=True,
        timeout=600,
        env=environment,
    )
    if done.returncode:
        raise SystemExit(f"{lane.title} failed:\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@dataclass(frozen=True)
class Measured:
    """The rounds of one lane."""

    lane: Lane
    count: int
    rounds: list[dict[str, float]]

    def median(self, key: str) -> float:
        """The middle one of all rounds' figures."""
        return statistics.median(each[key] for each in self.rounds)

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.count / self.median("seconds")

    @property
    def cpu_per_million(self) -> float:
        """CPU seconds for a million records."""
        return self.median("cpu") / self.count * 1e6

    @property
    def spread(self) -> float:
        """How far the rounds lie apart: the widest distance from the median, as a part of it."""
        middle = self.median("cpu")
        return max(abs(each["cpu"] - middle) for each in self.rounds) / middle if middle else 0.0


def measure(
    lanes: tuple[Lane, ...], servers: str, topic: str, count: int, size: int, rounds: int
) -> list[Measured]:
    """All lanes, one after the other, round after round."""
    measured = [Measured(lane, max(1000, int(count * lane.share)), []) for lane in lanes]
    for number in range(rounds):
        for each in measured:
            each.rounds.append(run_worker(each.lane, servers, topic, each.count, size))
            print(f"\r{number + 1}/{rounds} {each.lane.title:40}", end="", file=sys.stderr)
    print(file=sys.stderr)
    return measured


def print_throughput(title: str, measured: list[Measured]) -> None:
    reference = measured[0]
    print(f"\n{title:44}{'krec/s':>9}{'rate':>7}{'CPU s/M':>9}{'CPU':>7}{'peak MB':>9}{'+-':>6}")
    for each in measured:
        rate, cpu = each.rate, each.cpu_per_million
        ratios = ("", "")
        if len(each.rounds) >= LEAST_ROUNDS:
            ratios = f"{rate / reference.rate:.2f}", f"{cpu / reference.cpu_per_million:.2f}"
        print(
            f"{each.lane.title:44}{rate / 1000:>9.0f}{ratios[0]:>7}{cpu:>9.2f}{ratios[1]:>7}"
            f"{each.median('peak_kb') / 1024:>9.0f}{each.spread:>6.0%}"
        )


def print_latency(title: str, measured: list[Measured]) -> None:
    reference = measured[0]
    print(f"\n{title:44}{'p50 ms':>9}{'ratio':>7}{'p99 ms':>9}{'ratio':>7}{'CPU us':>9}")
    for each in measured:
        p50, p99 = each.median("p50_ms"), each.median("p99_ms")
        ratios = ("", "")
        if len(each.rounds) >= LEAST_ROUNDS:
            ratios = (
                f"{p50 / reference.median('p50_ms'):.2f}",
                f"{p99 / reference.median('p99_ms'):.2f}",
            )
        print(
            f"{each.lane.title:44}{p50:>9.3f}{ratios[0]:>7}{p99:>9.3f}{ratios[1]:>7}"
            f"{each.cpu_per_million:>9.0f}"
        )


def save(name: str, measured: list[Measured], size: int) -> None:
    """Write every round, with the commit and the machine."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    RESULTS.mkdir(exist_ok=True)
    rows = {each.lane.title: {"count": each.count, "rounds": each.rounds} for each in measured}
    machine = {"python": platform.python_version(), "cores": os.cpu_count()}
    content = {"commit": commit, "machine": machine, "size": size, "lanes": rows}
    (RESULTS / f"{name}-{size}.json").write_text(json.dumps(content, indent=1) + "\n")


def fill(servers: str, topic: str, count: int, size: int) -> None:
    """Put records where the consumers read them."""
    with Producer(servers, batch_size=256 * 1024) as producer:
        value = b"x" * size
        producer.send_many(topic, ((b"%08d" % number, value) for number in range(count)))


def main() -> None:
    parser = argparse.ArgumentParser(description="kclient beside its peers.")
    parser.add_argument("what", nargs="*", default=["produce", "consume", "latency"])
    parser.add_argument("--quick", action="store_true", help="fewer records, 3 rounds")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value (100)")
    options = parser.parse_args()
    count = 200_000 if options.quick else 1_000_000
    count = count * 100 // max(100, options.size // 4)
    rounds = 3 if options.quick else options.rounds
    begin, load = time.monotonic(), os.getloadavg()[0]
    with LocalKafka(heap_mb=1024) as kafka, Admin(kafka.bootstrap_servers) as admin:
        servers = kafka.bootstrap_servers
        for topic in ("produce", "consume", "latency"):
            admin.create_topic(topic, num_partitions=PARTITIONS)
        title = f"{options.size} B, {count} records, {rounds} rounds"
        if "produce" in options.what:
            measured = measure(PRODUCE, servers, "produce", count, options.size, rounds)
            print_throughput(f"produce, {title}", measured)
            save("produce", measured, options.size)
        if "consume" in options.what:
            fill(servers, "consume", count, options.size)
            measured = measure(CONSUME, servers, "consume", count, options.size, rounds)
            print_throughput(f"consume, {title}", measured)
            save("consume", measured, options.size)
        if "latency" in options.what:
            measured = measure(LATENCY, servers, "latency", 2000, options.size, rounds)
            print_latency(f"one in flight, {options.size} B, {rounds} rounds", measured)
            save("latency", measured, options.size)
    taken = time.monotonic() - begin
    print(f"\nload before {load:.1f}, after {os.getloadavg()[0]:.1f}; {taken:.0f} s in all")


if __name__ == "__main__":
    main()
