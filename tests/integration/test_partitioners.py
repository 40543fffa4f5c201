"""Keys land where Java puts them, and librdkafka for each partitioner it shares with us."""

from __future__ import annotations

import random

import confluent_kafka
import pytest

from kclient import Consumer, Producer, TopicPartition
from kclient.delivery.partitioner import choose_partitioner

from .exchange import create_topic, new_name
from .neighbours import Item, Java

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


def test_keys_land_where_java_puts_them(bootstrap_servers: str) -> None:
    chosen = random.Random(7)
    keys = {b"%x" % chosen.getrandbits(chosen.randint(1, 200)) for _ in range(300)}
    topic = new_name()
    create_topic(bootstrap_servers, topic, partitions=PARTITIONS)
    Java().write(bootstrap_servers, topic, [Item(b"java", key) for key in keys], None)
    with Producer(bootstrap_servers) as producer:
        producer.send_many(topic, [(key, b"ours") for key in keys])
    places: dict[bytes | None, list[int]] = {}
    with Consumer(bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        count = 0
        while count < 2 * len(keys):
            for record in consumer.poll(30.0):
                places.setdefault(record.key, []).append(record.partition)
                count += 1
    assert all(first == second for first, second in places.values())
    assert len({first for first, _ in places.values()}) == PARTITIONS
