"""Keys land where librdkafka puts them, for each partitioner it shares with us."""

from __future__ import annotations

import random

import confluent_kafka
import pytest

from kclient.delivery.partitioner import choose_partitioner

from .exchange import create_topic, new_name

PARTITIONS = 7


def placed_by_librdkafka(
    servers: str, topic: str, name: str, keys: list[bytes]
) -> dict[bytes, int]:
    """Let confluent-kafka send a record for each key; where its delivery reports say they are."""
    placed: dict[bytes, int] = {}
    failed: list[object] = []

    def delivered(error: object, message: confluent_kafka.Message) -> None:
        key, partition = message.key(), message.partition()
        if error is not None or key is None or partition is None:
            failed.append(error)
        else:
            placed[key if isinstance(key, bytes) else key.encode()] = partition

    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "partitioner": name})
    for key in keys:
        producer.produce(topic, b"value", key, on_delivery=delivered)
    assert producer.flush(60) == 0
    assert not failed
    return placed


@pytest.mark.parametrize("name", ["consistent", "consistent_random", "murmur2", "murmur2_random"])
def test_keys_land_where_librdkafka_puts_them(bootstrap_servers: str, name: str) -> None:
    topic = new_name()
    create_topic(bootstrap_servers, topic, partitions=PARTITIONS)
    rng = random.Random(name)
    keys = [b"%d" % number for number in range(100)]
    keys += [rng.randbytes(rng.randrange(1, 80)) for _ in range(200)]
    placed = placed_by_librdkafka(bootstrap_servers, topic, name, keys)
    ours = choose_partitioner(name)(topic)
    assert placed == {key: ours.partition(key, PARTITIONS, range(PARTITIONS)) for key in keys}
    assert set(placed.values()) == set(range(PARTITIONS))
