"""A full metadata refresh: bytes of an answer decoded and indexed, for 1k to 100k partitions.

    python -m bench.metadata [--quick]

The answers are synthetic (Metadata v13, three brokers, 50 partitions a topic, three replicas
each). Time and memory must grow with the partitions, not faster: the cost of each partition
in the largest cluster may be at most half more than in the smallest. That is judged without
Python's garbage collector, whose passes over all that a process holds are not ours to count;
the whole refresh is measured with it, as users have it.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import NamedTuple, TypeVar
from uuid import UUID

from kclient.cluster.view import ClusterView
from kclient.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

T = TypeVar("T")
VERSION = 13
NODES = 3
EACH = 50
SIZES = (1_000, 10_000, 100_000)
WORST_GROWTH = 1.5


class Row(NamedTuple):
    """One size: seconds, and bytes of memory that a view keeps."""

    partitions: int
    answer: int
    decode: float
    first: float
    again: float
    whole: float
    memory: int

    @property
    def each(self) -> float:
        """Seconds for one partition of a repeated refresh, decoded and indexed."""
        return (self.decode + self.again) / self.partitions


def answer(partitions: int) -> bytes:
    """The bytes of an answer about so many partitions."""
    brokers = [
        MetadataResponseBroker(node_id=node, host=f"broker-{node}.example.org", port=9092)
        for node in range(NODES)
    ]
    nodes = list(range(NODES))
    topics = [
        MetadataResponseTopic(
            name=f"topic-{number}",
            topic_id=UUID(int=number + 1),
            partitions=[
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=index % NODES,
                    leader_epoch=5,
                    replica_nodes=nodes,
                    isr_nodes=nodes,
                )
                for index in range(EACH)
            ],
        )
        for number in range(partitions // EACH)
    ]
    message = MetadataResponse(brokers=brokers, topics=topics, cluster_id="bench")
    return message.encode(VERSION)


def timed(work: Callable[[], T], rounds: int, *, collecting: bool = False) -> tuple[float, T]:
    """The median of the seconds that ``work`` takes, and what it returns."""
    times = []
    for _ in range(rounds):
        gc.collect()
        if not collecting:
            gc.disable()
        started = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - started)
        gc.enable()
    return statistics.median(times), result


def kept_memory(data: bytes) -> int:
    """The bytes that a view of this answer keeps."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    view = ClusterView().merged(MetadataResponse.decode(data, VERSION), is_full=True)
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert view.topics
    return kept


def measure(partitions: int, rounds: int) -> Row:
    data = answer(partitions)
    decode, message = timed(lambda: MetadataResponse.decode(data, VERSION), rounds)
    first, view = timed(lambda: ClusterView().merged(message, is_full=True), rounds)
    again, _ = timed(lambda: view.merged(message, is_full=True), rounds)
    whole, _ = timed(
        lambda: view.merged(MetadataResponse.decode(data, VERSION), is_full=True),
        rounds,
        collecting=True,
    )
    return Row(partitions, len(data), decode, first, again, whole, kept_memory(data))


def main() -> int:
    parser = argparse.ArgumentParser(description="A full metadata refresh.")
    parser.add_argument("--quick", action="store_true", help="few rounds, rougher figures")
    rounds = 3 if parser.parse_args().quick else 15
    print(
        "partitions  answer KiB  decode ms  index ms  index again ms  us each  bytes each"
        "  whole refresh ms"
    )
    rows = [measure(size, rounds) for size in SIZES]
    for row in rows:
        print(
            f"{row.partitions:>10,}{row.answer / 1024:>12,.0f}{row.decode * 1e3:>11.2f}"
            f"{row.first * 1e3:>10.2f}{row.again * 1e3:>16.2f}"
            f"{row.each * 1e6:>9.2f}{row.memory / row.partitions:>12.0f}"
            f"{row.whole * 1e3:>18.2f}"
        )
    growth = rows[-1].each / rows[0].each
    fatter = (rows[-1].memory * rows[0].partitions) / (rows[0].memory * rows[-1].partitions)
    print(
        f"growth of the cost of each from smallest to largest: time {growth:.2f}, "
        f"memory {fatter:.2f} (at most {WORST_GROWTH:g})"
    )
    return int(max(growth, fatter) > WORST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
