"""What a poll costs when many partitions are assigned and one has records.

    python -m bench.idle_partitions [--polls 400]

The cost must not grow with the partitions that are idle: a table of CPU microseconds per poll
for 10, 100 and 1,000 of them, kclient beside kafka-python and confluent-kafka. Each poll waits
for one record, which is written just before it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from kclient import Admin, Consumer, Producer, TopicPartition
from kclient.testing import LocalKafka

COUNTS = (10, 100, 1000)
ROUNDS = 3
Poll = Callable[[float], int]
"""Takes the seconds to wait, returns the number of records."""


def kclient_poll(servers: str, topic: str, count: int) -> tuple[Poll, Callable[[], None]]:
    consumer = Consumer(servers)
    consumer.assign([TopicPartition(topic, number) for number in range(count)])
    consumer.seek_to_end()
    return lambda seconds: len(consumer.poll(seconds)), consumer.close


def kafka_python_poll(servers: str, topic: str, count: int) -> tuple[Poll, Callable[[], None]]:
    import kafka

    consumer = kafka.KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="latest")
    consumer.assign([kafka.TopicPartition(topic, number) for number in range(count)])
    consumer.seek_to_end()

    def poll(seconds: float) -> int:
        return sum(map(len, consumer.poll(int(seconds * 1000)).values()))

    return poll, consumer.close


def confluent_poll(servers: str, topic: str, count: int) -> tuple[Poll, Callable[[], None]]:
    import confluent_kafka

    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "bench"})
    consumer.assign(
        [
            confluent_kafka.TopicPartition(topic, number, confluent_kafka.OFFSET_END)
            for number in range(count)
        ]
    )
    return lambda seconds: len(consumer.consume(1, seconds)), consumer.close


CLIENTS = {"kclient": kclient_poll, "kafka-python": kafka_python_poll, "confluent": confluent_poll}


def cpu_per_poll(poll: Poll, producer: Producer, topic: str, polls: int) -> float:
    """CPU seconds of this process for one poll, the writing left out."""
    spent = 0.0
    for _ in range(polls):
        producer.send(topic, b"x", partition=0)
        begin = time.process_time()
        while not poll(5.0):
            pass
        spent += time.process_time() - begin
    return spent / polls


def main() -> None:
    parser = argparse.ArgumentParser(description="The cost of idle partitions.")
    parser.add_argument("--polls", type=int, default=200)
    polls = parser.parse_args().polls
    with LocalKafka(heap_mb=1024) as kafka, Admin(kafka.bootstrap_servers) as admin:
        servers = kafka.bootstrap_servers
        admin.create_topic("idle", num_partitions=max(COUNTS))
        print(f"{'CPU us per poll, of partitions:':34}" + "".join(f"{n:>9}" for n in COUNTS))
        with Producer(servers) as producer:
            for name, make in CLIENTS.items():
                costs = []
                for count in COUNTS:
                    poll, close = make(servers, "idle", count)
                    while not poll(0.5):  # until all partitions are being fetched
                        producer.send("idle", b"x", partition=0)
                    while poll(2.0):
                        pass
                    rounds = [cpu_per_poll(poll, producer, "idle", polls) for _ in range(ROUNDS)]
                    costs.append(statistics.median(rounds))
                    close()
                print(f"{name:34}" + "".join(f"{cost * 1e6:>9.0f}" for cost in costs), flush=True)


if __name__ == "__main__":
    main()
