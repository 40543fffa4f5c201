"""Other clients of Kafka behind one small face: Java's tools, librdkafka, kafka-python, aiokafka.

Each writes to and reads from partition 0 of a topic that exists.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
import warnings
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import aiokafka
import confluent_kafka

from kclient.testing.jars import classpath
from kclient.testing.toolchain import java_command

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python reads its schemas by a deprecated call
    import kafka as kafka_python

T = TypeVar("T")
SECONDS = 60.0
NULL = "NULL"
_ORACLE = Path(__file__).resolve().parents[1] / "oracle"


class Item(NamedTuple):
    """A record, as all of them know it."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Transaction(NamedTuple):
    """What is written together, and how it ends."""

    values: Sequence[bytes]
    commit: bool


class Peer(Protocol):
    """Another client."""

    writes_null_headers: bool
    """kafka-python refuses them, and Java's console has no words for them."""

    def write(self, servers: str, topic: str, items: Sequence[Item], codec: str | None) -> None:
        """Write records."""

    def write_transactions(
        self, servers: str, topic: str, transactions: Sequence[Transaction]
    ) -> None:
        """Write in transactions, one after the other."""

    def read(self, servers: str, topic: str, count: int, *, committed: bool = False) -> list[Item]:
        """The first records; only those of committed transactions if asked so."""

    def read_on(self, servers: str, topic: str, group: str, count: int) -> list[bytes | None]:
        """As a member of a group: the values of the next records, which are committed then."""


def poll_until(done: Callable[[], bool], poll: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < end, f"not within {SECONDS:g} s"
        poll()


class Java:
    """The console tools of Kafka 4.3.1, and a program of ours for transactions."""

    writes_null_headers = False

    def write(self, servers: str, topic: str, items: Sequence[Item], codec: str | None) -> None:
        properties = ("parse.key=true", "parse.headers=true", f"null.marker={NULL}")
        self._run(
            "org.apache.kafka.tools.ConsoleProducer",
            *("--bootstrap-server", servers, "--topic", topic),
            *("--compression-codec", codec or "none"),
            *(word for each in properties for word in ("--reader-property", each)),
            text="".join(f"{_line(item)}\n" for item in items),
        )

    def write_transactions(
        self, servers: str, topic: str, transactions: Sequence[Transaction]
    ) -> None:
        lines = [
            " ".join(["commit" if each.commit else "abort", *map(bytes.decode, each.values)])
            for each in transactions
        ]
        source = str(_ORACLE / "TransactionalWriter.java")
        self._run(source, servers, topic, text="\n".join(lines))

    def read(self, servers: str, topic: str, count: int, *, committed: bool = False) -> list[Item]:
        printed = self._consume(servers, topic, count, committed, "--from-beginning")
        return [_item(line) for line in printed.splitlines()]

    def read_on(self, servers: str, topic: str, group: str, count: int) -> list[bytes | None]:
        printed = self._consume(servers, topic, count, False, "--group", group, "--from-beginning")
        return [_item(line).value for line in printed.splitlines()]

    def _consume(self, servers: str, topic: str, count: int, committed: bool, *more: str) -> str:
        level = "read_committed" if committed else "read_uncommitted"
        properties = ("print.key=true", "print.headers=true", f"null.literal={NULL}")
        return self._run(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", servers, "--topic", topic, "--max-messages", str(count)),
            *("--isolation-level", level, *more),
            *(word for each in properties for word in ("--formatter-property", each)),
        )

    def _run(self, *arguments: str, text: str = "") -> str:
        flags = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classpath("4.3.1"))
        done = subprocess.run(
            [java_command(), *flags, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def _line(item: Item) -> str:
    """A record as the console producer reads it."""
    headers = ",".join(f"{key}:{(value or b'').decode()}" for key, value in item.headers)
    key, value = ((each or NULL.encode()).decode() for each in (item.key, item.value))
    return f"{headers or NULL}\t{key}\t{value}"


def _item(line: str) -> Item:
    """A record as the console consumer prints it."""
    headers, key, value = line.split("\t")
    pairs = [] if headers == "NO_HEADERS" else [each.split(":") for each in headers.split(",")]
    return Item(_bytes(value), _bytes(key), tuple((name, _bytes(text)) for name, text in pairs))


def _bytes(text: str) -> bytes | None:
    return None if text == NULL else text.encode()


class Librdkafka:
    """confluent-kafka."""

    writes_null_headers = True

    def write(self, servers: str, topic: str, items: Sequence[Item], codec: str | None) -> None:
        producer = self._producer(servers, **{"compression.type": codec or "none"})
        for item in items:
            producer.produce(topic, item.value, item.key, 0, headers=list(item.headers))
        assert producer.flush(SECONDS) == 0

    def write_transactions(
        self, servers: str, topic: str, transactions: Sequence[Transaction]
    ) -> None:
        producer = self._producer(servers, **{"transactional.id": topic})
        producer.init_transactions(SECONDS)
        for each in transactions:
            producer.begin_transaction()
            for value in each.values:
                producer.produce(topic, value, partition=0)
            assert producer.flush(SECONDS) == 0
            end = producer.commit_transaction if each.commit else producer.abort_transaction
            end(SECONDS)

    def read(self, servers: str, topic: str, count: int, *, committed: bool = False) -> list[Item]:
        level = "read_committed" if committed else "read_uncommitted"
        consumer = self._consumer(servers, "nobody", level)
        with closing(consumer):
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
            found = self._take(consumer, count)
        return [Item(one.value(), one.key(), tuple(one.headers() or ())) for one in found]

    def read_on(self, servers: str, topic: str, group: str, count: int) -> list[bytes | None]:
        consumer = self._consumer(servers, group, "read_uncommitted")
        with closing(consumer):
            consumer.subscribe([topic])
            found = self._take(consumer, count)
            consumer.commit(message=found[-1], asynchronous=False)
        return [one.value() for one in found]

    def _take(self, consumer: confluent_kafka.Consumer, count: int) -> list[Any]:
        found: list[Any] = []
        poll_until(
            lambda: len(found) >= count,
            lambda: found.extend(consumer.consume(count - len(found), 0.5)),
        )
        assert not [one.error() for one in found if one.error()]
        return found

    def _producer(self, servers: str, **options: str) -> confluent_kafka.Producer:
        return confluent_kafka.Producer({"bootstrap.servers": servers, **options})

    def _consumer(self, servers: str, group: str, level: str) -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "isolation.level": level,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )


class KafkaPython:
    """kafka-python."""

    writes_null_headers = False

    def write(self, servers: str, topic: str, items: Sequence[Item], codec: str | None) -> None:
        producer = kafka_python.KafkaProducer(bootstrap_servers=servers, compression_type=codec)
        with closing(producer):
            sent = [
                producer.send(topic, item.value, item.key, list(item.headers), partition=0)
                for item in items
            ]
            for future in sent:
                future.get(SECONDS)

    def write_transactions(
        self, servers: str, topic: str, transactions: Sequence[Transaction]
    ) -> None:
        producer = kafka_python.KafkaProducer(bootstrap_servers=servers, transactional_id=topic)
        with closing(producer):
            producer.init_transactions()
            for each in transactions:
                producer.begin_transaction()
                for value in each.values:
                    producer.send(topic, value, partition=0)
                producer.flush()
                end = producer.commit_transaction if each.commit else producer.abort_transaction
                end()

    def read(self, servers: str, topic: str, count: int, *, committed: bool = False) -> list[Item]:
        level = "read_committed" if committed else "read_uncommitted"
        consumer = self._consumer(servers, None, level, count)
        with closing(consumer):
            consumer.assign([kafka_python.TopicPartition(topic, 0)])
            found = self._take(consumer, count)
        return [Item(one.value, one.key, tuple(one.headers)) for one in found]

    def read_on(self, servers: str, topic: str, group: str, count: int) -> list[bytes | None]:
        consumer = self._consumer(servers, group, "read_uncommitted", count)
        with closing(consumer):
            consumer.subscribe([topic])
            found = self._take(consumer, count)
            consumer.commit()
        return [one.value for one in found]

    def _take(self, consumer: Any, count: int) -> list[Any]:
        found: list[Any] = []
        poll_until(
            lambda: len(found) >= count,
            lambda: found.extend(
                one
                for some in consumer.poll(500, max_records=count - len(found)).values()
                for one in some
            ),
        )
        return found

    def _consumer(self, servers: str, group: str | None, level: str, count: int) -> Any:
        return kafka_python.KafkaConsumer(
            bootstrap_servers=servers,
            group_id=group,
            isolation_level=level,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=count,
        )


class Aiokafka:
    """aiokafka, in a loop of its own for each call."""

    writes_null_headers = True

    def write(self, servers: str, topic: str, items: Sequence[Item], codec: str | None) -> None:
        async def work() -> None:
            async with aiokafka.AIOKafkaProducer(
                bootstrap_servers=servers, compression_type=codec
            ) as producer:
                for item in items:
                    await producer.send_and_wait(
                        topic, item.value, item.key, partition=0, headers=list(item.headers)
                    )

        self._run(work())

    def write_transactions(
        self, servers: str, topic: str, transactions: Sequence[Transaction]
    ) -> None:
        async def work() -> None:
            async with aiokafka.AIOKafkaProducer(
                bootstrap_servers=servers, transactional_id=topic
            ) as producer:
                for each in transactions:
                    await producer.begin_transaction()
                    for value in each.values:
                        await producer.send_and_wait(topic, value, partition=0)
                    end = producer.commit_transaction if each.commit else producer.abort_transaction
                    await end()

        self._run(work())

    def read(self, servers: str, topic: str, count: int, *, committed: bool = False) -> list[Item]:
        level = "read_committed" if committed else "read_uncommitted"

        async def work() -> list[Item]:
            async with self._consumer(servers, None, level) as consumer:
                consumer.assign([aiokafka.TopicPartition(topic, 0)])
                found = [await consumer.getone() for _ in range(count)]
            return [Item(one.value, one.key, tuple(one.headers)) for one in found]

        return self._run(work())

    def read_on(self, servers: str, topic: str, group: str, count: int) -> list[bytes | None]:
        async def work() -> list[bytes | None]:
            async with self._consumer(servers, group, "read_uncommitted") as consumer:
                consumer.subscribe([topic])
                found = [await consumer.getone() for _ in range(count)]
                await consumer.commit()
            return [one.value for one in found]

        return self._run(work())

    def _consumer(self, servers: str, group: str | None, level: str) -> Any:
        return aiokafka.AIOKafkaConsumer(
            bootstrap_servers=servers,
            group_id=group,
            isolation_level=level,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(asyncio.wait_for(work, SECONDS))


PEERS: tuple[Peer, ...] = (Java(), Librdkafka(), KafkaPython(), Aiokafka())
