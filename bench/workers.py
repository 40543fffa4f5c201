"""One client doing one thing, in a process of its own: what `bench.throughput` measures.

    python -m bench.workers produce confluent SERVERS TOPIC COUNT SIZE

Prints one line of JSON: wall seconds and CPU seconds of the work, without imports and start.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

BATCH, LINGER_MS = 256 * 1024, 10
KEYS = 10_000


def records(count: int, size: int) -> list[tuple[bytes, bytes]]:
    """The same keys and values for every client, made before anything is measured."""
    value = b"x" * size
    return [(b"%08d" % (number % KEYS), value) for number in range(count)]


# --- producing ---------------------------------------------------------------------------


def kclient_send_many(servers: str, topic: str, count: int, size: int) -> Callable[[], None]:
    from kclient import Producer

    producer = Producer(servers, batch_size=BATCH, linger_ms=LINGER_MS)
    producer.send(topic, b"warm up")
    made = records(count, size)

    def work() -> None:
        producer.send_many(topic, made)

    return work


def kclient_submit(servers: str, topic: str, count: int, size: int) -> Callable[[], None]:
    from kclient import Producer

    producer = Producer(servers, batch_size=BATCH, linger_ms=LINGER_MS)
    producer.send(topic, b"warm up")
    made = records(count, size)

    def work() -> None:
        submit = producer.submit
        for key, value in made:
            submit(topic, value, key=key)
        producer.flush()

    return work


def confluent_produce(servers: str, topic: str, count: int, size: int) -> Callable[[], None]:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": LINGER_MS,
            "batch.size": BATCH,
            "queue.buffering.max.messages": 1_000_000,
            "partitioner": "murmur2_random",
        }
    )
    producer.produce(topic, b"warm up")
    producer.flush()
    made = records(count, size)

    def work() -> None:
        produce, poll = producer.produce, producer.poll
        for key, value in made:
            try:
                produce(topic, value, key)
            except BufferError:
                poll(0.1)
                produce(topic, value, key)
        producer.flush()

    return work


def kafka_python_produce(servers: str, topic: str, count: int, size: int) -> Callable[[], None]:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=servers, acks="all", linger_ms=LINGER_MS, batch_size=BATCH
    )
    producer.send(topic, b"warm up").get(30)
    made = records(count, size)

    def work() -> None:
        for key, value in made:
            producer.send(topic, value, key)
        producer.flush()

    return work


def aiokafka_produce(servers: str, topic: str, count: int, size: int) -> Callable[[], None]:
    from aiokafka import AIOKafkaProducer

    made = records(count, size)

    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=servers,
            enable_idempotence=True,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH,
        )
        await producer.start()
        futures = [await producer.send(topic, value, key) for key, value in made]
        await asyncio.gather(*futures)
        await producer.stop()

    return lambda: asyncio.run(run())


# --- consuming ---------------------------------------------------------------------------


def kclient_poll(servers: str, topic: str, count: int, size: int) -> Callable[[], None]:
    from kclient import Consumer

    consumer = Consumer(servers, auto_offset_reset="earliest", max_partition_fetch_bytes=4 << 20)
    consumer.assign(_all_partitions(servers, topic))

    def work() -> None:
        left = count
        while left > 0:
            left -= len(consumer.poll(5.0))

    return work


def kclient_iterate(servers: str, topic: str, count: int, size: int) -> Callable[[], None]:
    from kclient import Consumer

    consumer = Consumer(servers, auto_offset_reset="earliest", max_partition_fetch_bytes=4 << 20)
    consumer.assign(_all_partitions(servers, topic))

    def work() -> None:
        left = count
        for _ in consumer:
            left -= 1
            if not left:
                return

    return work


def kclient_arrow(servers: str, topic: str, count: int, size: int) -> Callable[[], None]:
    import pyarrow as pa

    from kclient import Consumer

    consumer = Consumer(servers, auto_offset_reset="earliest", max_partition_fetch_bytes=4 << 20)
    consumer.assign(_all_partitions(servers, topic))
    assert pa

    def work() -> None:
        left = count
        while left > 0:
            left -= consumer.poll_arrow(5.0, max_records=50_000).num_rows

    return work


def kclient_group(servers: str, topic: str, count: int, size: int) -> Callable[[], None]:
    from kclient import Consumer

    group = f"bench-{time.time_ns()}"
    consumer = Consumer(servers, group_id=group, auto_offset_reset="earliest")
    consumer.subscribe([topic])

    def work() -> None:
        left = count
        while left > 0:
            left -= len(consumer.poll(5.0))

    return work


def _confluent(servers: str, **options: Any) -> Any:
    from confluent_kafka import Consumer

    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"bench-{time.time_ns()}",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": False,
            "fetch.queue.backoff.ms": 5,
            "max.partition.fetch.bytes": 4 << 20,
            **options,
        }
    )


def confluent_consume(servers: str, topic: str, count: int, size: int) -> Callable[[], None]:
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    consumer = _confluent(servers)
    found = _all_partitions(servers, topic)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for _, number in found])

    def work() -> None:
        left = count
        while left > 0:
            left -= len(consumer.consume(min(500, left), 5.0))  # else the last call waits

    return work


def confluent_group(servers: str, topic: str, count: int, size: int) -> Callable[[], None]:
    consumer = _confluent(servers)
    consumer.subscribe([topic])

    def work() -> None:
        left = count
        while left > 0:
            left -= len(consumer.consume(min(500, left), 5.0))  # else the last call waits

    return work


def kafka_python_consume(servers: str, topic: str, count: int, size: int) -> Callable[[], None]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(*each) for each in _all_partitions(servers, topic)])

    def work() -> None:
        left = count
        while left > 0:
            left -= sum(map(len, consumer.poll(5000).values()))

    return work


def aiokafka_consume(servers: str, topic: str, count: int, size: int) -> Callable[[], None]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    found = _all_partitions(servers, topic)

    async def run() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([TopicPartition(*each) for each in found])
        left = count
        while left > 0:
            left -= sum(map(len, (await consumer.getmany(timeout_ms=5000)).values()))
        await consumer.stop()

    return lambda: asyncio.run(run())


def _all_partitions(servers: str, topic: str) -> list[Any]:
    from kclient import Admin, TopicPartition

    with Admin(servers) as admin:
        count = len(admin.describe_topics([topic])[topic].partitions)
    return [TopicPartition(topic, number) for number in range(count)]


# --- one record at a time ----------------------------------------------------------------


def kclient_send(servers: str, topic: str, count: int, size: int) -> Callable[[], Any]:
    from kclient import Producer

    producer = Producer(servers)
    return _latencies(lambda value: producer.send(topic, value), count, size)


def confluent_send(servers: str, topic: str, count: int, size: int) -> Callable[[], Any]:
    from confluent_kafka import Producer

    options = {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 0}
    producer = Producer(options)

    def send(value: bytes) -> None:
        producer.produce(topic, value)
        producer.flush()

    return _latencies(send, count, size)


def kafka_python_send(servers: str, topic: str, count: int, size: int) -> Callable[[], Any]:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=servers, acks="all")
    return _latencies(lambda value: producer.send(topic, value).get(30), count, size)


def _latencies(send: Callable[[bytes], object], count: int, size: int) -> Callable[[], Any]:
    value = b"x" * size
    for _ in range(200):
        send(value)

    def work() -> dict[str, float]:
        taken = []
        for _ in range(count):
            begin = time.perf_counter()
            send(value)
            taken.append(time.perf_counter() - begin)
        taken.sort()
        return {
            "p50_ms": 1000 * taken[len(taken) // 2],
            "p99_ms": 1000 * taken[int(len(taken) * 0.99)],
        }

    return work


def cpu_seconds() -> float:
    """User and system time of this process, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    name, servers, topic, count, size = sys.argv[1:]
    work: Callable[[], Any] = globals()[name](servers, topic, int(count), int(size))
    wall, cpu = time.perf_counter(), cpu_seconds()
    more = work() or {}
    taken = {"seconds": time.perf_counter() - wall, "cpu": cpu_seconds() - cpu}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({**taken, "peak_kb": peak, **more}), flush=True)


if __name__ == "__main__":
    main()
