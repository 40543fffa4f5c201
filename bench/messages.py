"""Message codec against kafka-python: Metadata v13 of 500 partitions, Produce v13 of 4.

    python -m bench.messages [--quick]

Both read and write the same bytes; the goals are those of the project's issue 3.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any
from uuid import UUID

from kafka.protocol.metadata.metadata import MetadataResponse as PeerMetadata
from kafka.protocol.producer.produce import ProduceRequest as PeerProduce

from bench.ratio import Ratio, compare
from kclient.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kclient.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

VERSION = 13
TOPICS, PARTITIONS_EACH = 10, 50
BATCH = bytes(16 * 1024)


def metadata() -> MetadataResponse:
    brokers = [
        MetadataResponseBroker(node_id=node, host=f"broker-{node}.example.org", port=9092)
        for node in range(3)
    ]
    topics = [
        MetadataResponseTopic(
            name=f"orders-{number}",
            topic_id=UUID(int=number + 1),
            partitions=[
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=index % 3,
                    leader_epoch=7,
                    replica_nodes=[0, 1, 2],
                    isr_nodes=[0, 1, 2],
                )
                for index in range(PARTITIONS_EACH)
            ],
        )
        for number in range(TOPICS)
    ]
    return MetadataResponse(brokers=brokers, cluster_id="bench", controller_id=1, topics=topics)


def produce() -> ProduceRequest:
    partitions = [PartitionProduceData(index=index, records=BATCH) for index in range(4)]
    topic = TopicProduceData(topic_id=UUID(int=1), partition_data=partitions)
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def peer_encode(message: Any) -> bytes:
    encoded: bytes = message.encode()  # in the version it was decoded from
    return encoded


def measure(rounds: int) -> list[tuple[str, float, Ratio]]:
    """Each comparison's name, the ratio it must reach, and what was measured."""
    ours = metadata()
    data = ours.encode(VERSION)
    theirs = PeerMetadata.decode(data, version=VERSION)
    request = produce()
    peer_request = PeerProduce.decode(request.encode(VERSION), version=VERSION)
    if MetadataResponse.decode(data, VERSION) != ours or peer_encode(theirs) != data:
        raise SystemExit("the two do not agree about Metadata: nothing to compare")
    if peer_encode(peer_request) != request.encode(VERSION):
        raise SystemExit("the two do not agree about Produce: nothing to compare")
    return [
        (
            "Metadata v13, 500 partitions, decode",
            1.3,
            compare(
                lambda: MetadataResponse.decode(data, VERSION),
                lambda: PeerMetadata.decode(data, version=VERSION),
                rounds=rounds,
            ),
        ),
        (
            "Metadata v13, 500 partitions, encode",
            1.3,
            compare(lambda: ours.encode(VERSION), lambda: peer_encode(theirs), rounds=rounds),
        ),
        (
            "Produce v13, 4 partitions of 16 KiB, encode to send",
            3.0,
            compare(
                lambda: request.encode_parts(VERSION),
                lambda: peer_encode(peer_request),
                rounds=rounds,
            ),
        ),
        (
            "Produce v13, 4 partitions of 16 KiB, encode to bytes",
            3.0,
            compare(
                lambda: request.encode(VERSION), lambda: peer_encode(peer_request), rounds=rounds
            ),
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Message codec against kafka-python.")
    parser.add_argument("--quick", action="store_true", help="few rounds, rougher figures")
    rows = measure(5 if parser.parse_args().quick else 40)
    print(f"{'':54}{'kclient':>10}{'kafka-python':>14}{'ratio':>8}{'goal':>7}")
    for name, goal, ratio in rows:
        times = f"{ratio.ours * 1e6:>7.1f} us{ratio.theirs * 1e6:>11.1f} us"
        print(f"{name:54}{times}{ratio.times_as_fast:>8.2f}{goal:>7.1f}")
    missed = [name for name, goal, ratio in rows if ratio.times_as_fast < goal]
    for name in missed:
        print(f"below its goal: {name}", file=sys.stderr)
    return len(missed)


if __name__ == "__main__":
    sys.exit(main())
