"""What a producer does when brokers and connections fail: each record once, in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from kclient import Producer, ProducerRecord, RecordMetadata, TopicPartition
from kclient.errors import (
    ClientClosedError,
    ConfigError,
    DeliveryError,
    KafkaTimeout,
    NotAuthorized,
    RecordTooLarge,
    SerializationError,
    TopicNotFound,
    UnsupportedVersion,
)
from kclient.protocol.negotiate import KAFKA_0_8, KAFKA_0_9
from kclient.testing import FakeCluster
from kclient.testing.fake import (
    Fault,
    close_after,
    close_before,
    close_midway,
    delay,
    drop,
    error_code,
    garbage,
    move_leader,
    negative_frame,
    oversized_frame,
    throttle,
    unsolicited,
    wrong_correlation_id,
)
from kclient.types import TimestampType

from .producing import (
    QUICK,
    TOPIC,
    TP,
    check_ledger,
    eventually,
    produced,
    quick,
    stored,
    values,
)

Start = Callable[..., FakeCluster]

FAULTS: dict[str, Fault] = {
    "leader not available": error_code(5),
    "not leader": error_code(6),
    "request timed out": error_code(7),
    "request timed out, but written": error_code(7, processed=True),
    "not enough replicas": error_code(19),
    "not enough replicas, but written": error_code(20, processed=True),
    "corrupt on the way": error_code(2),
    "storage error": error_code(56),
    "unknown topic id": error_code(100),
    "cut before it was written": close_before(),
    "cut after it was written": close_after(),
    "cut in the middle of the answer": close_midway(),
    "wrong number": wrong_correlation_id(),
    "two answers": unsolicited(),
    "oversized answer": oversized_frame(),
    "negative answer": negative_frame(),
    "garbage": garbage(),
    "another leader": move_leader(TP, 2),
}


def submit_many(producer: Producer, count: int) -> None:
    for _ in range(count):
        producer.submit(TOPIC, b"x" * 100)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_costs_no_record_and_makes_none_twice(name: str, fake_cluster: Start) -> None:
    cluster = fake_cluster(brokers=3, topics={TOPIC: 1})
    with quick(cluster) as producer:
        producer.send(TOPIC, b"0")
        fault = cluster.on("Produce", FAULTS[name])
        landed = producer.send(TOPIC, b"1")
        after = producer.send(TOPIC, b"2")
    assert fault.hits
    assert values(cluster) == [b"0", b"1", b"2"]
    assert (landed.offset, after.offset) == (1, 2)


@pytest.mark.parametrize("name", FAULTS)
def test_several_in_flight_stay_in_order(name: str, fake_cluster: Start) -> None:
    cluster = fake_cluster(brokers=3, topics={TOPIC: 1})
    fault = cluster.on("Produce", FAULTS[name], nth=3)
    sent = [b"%04d" % number for number in range(400)]
    with quick(cluster, batch_size=200, linger_ms=0) as producer:
        report = producer.send_many(TOPIC, sent)
    assert fault.hits
    assert values(cluster) == sent
    assert report.count == len(sent)
    assert report.offsets == {TP: (0, len(sent) - 1)}


def test_a_request_that_is_never_answered_is_sent_again(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster, request_timeout_ms=300) as producer:
        producer.send(TOPIC, b"0")
        cluster.on("Produce", drop(processed=True))
        assert producer.send(TOPIC, b"1").offset == 1
        cluster.on("Produce", drop())
        assert producer.send(TOPIC, b"2").offset == 2
    assert values(cluster) == [b"0", b"1", b"2"]


def test_one_paused_broker_does_not_hold_up_the_others(fake_cluster: Start) -> None:
    cluster = fake_cluster(brokers=2, topics={TOPIC: 2}, replication=1)
    slow = TopicPartition(TOPIC, 0)
    with quick(cluster) as producer:
        for number in (0, 1):
            producer.send(TOPIC, b"", partition=number)
        cluster.pause(cluster.leader(slow))
        waiting = producer.submit(TOPIC, b"slow", partition=0)
        for _ in range(3):
            producer.send(TOPIC, b"quick", partition=1, timeout=10)
        assert not waiting.done()
        cluster.resume(cluster.leader(slow))
        assert waiting.result(10).offset == 1


def test_brokers_die_in_turn_while_threads_produce(fake_cluster: Start) -> None:
    cluster = fake_cluster(brokers=3, topics={TOPIC: 4})
    acknowledged: dict[bytes, list[tuple[bytes, bytes]]] = {}
    with quick(cluster, linger_ms=1, batch_size=500) as producer:

        def one_by_one() -> None:
            acknowledged[b"send"] = done = []
            for number in range(150):
                value = b"%d" % number
                producer.send(TOPIC, value, key=b"send")
                done.append((b"send", value))

        def queued() -> None:
            pairs = [(b"submit", b"%d" % number) for number in range(600)]
            futures = [producer.submit(TOPIC, value, key=key) for key, value in pairs]
            assert all(future.result(30).offset >= 0 for future in futures)
            acknowledged[b"submit"] = pairs

        def streamed() -> None:
            acknowledged[b"many"] = done = []
            for turn in range(6):
                pairs = [(b"many%d" % (n % 5), b"%d.%d" % (turn, n)) for n in range(200)]
                assert producer.send_many(TOPIC, pairs).count == len(pairs)
                done += pairs

        threads = [threading.Thread(target=work) for work in (one_by_one, queued, streamed)]
        for thread in threads:
            thread.start()
        for turn in range(9):
            cluster.kill(1 + turn % 3)
            cluster.await_request("Produce", nth=len(cluster.requests("Produce")) + 1)
            cluster.start(1 + turn % 3)
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    assert set(acknowledged) == {b"send", b"submit", b"many"}
    for pairs in acknowledged.values():
        check_ledger(pairs, [r for r in stored(cluster, 4) if r.key in {key for key, _ in pairs}])
    assert len(stored(cluster, 4)) == sum(map(len, acknowledged.values()))


def test_throttling_is_honoured(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:
        producer.send(TOPIC, b"0")
        cluster.on("Produce", throttle(300))
        producer.send(TOPIC, b"1")
        begin = time.monotonic()
        producer.send(TOPIC, b"2")
        assert time.monotonic() - begin >= 0.29
        assert producer.metrics()["throttle_ms"] == 300


@pytest.mark.parametrize("acks", [0, 1, "all", -1])
def test_acks(acks: Any, fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster, acks=acks) as producer:
        landed = [producer.send(TOPIC, b"%d" % number) for number in range(3)]
        report = producer.send_many(TOPIC, [b"3", b"4"])
        assert producer.submit(TOPIC, b"5").result(10).topic == TOPIC
        (cluster.await_request("Produce", nth=5),)
    assert values(cluster) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    expected = [-1, -1, -1] if acks == 0 else [0, 1, 2]
    assert [each.offset for each in landed] == expected
    assert report.offsets == {TP: (-1, -1) if acks == 0 else (3, 4)}
    message: Any = cluster.requests("Produce")[0].message
    assert message.acks == {0: 0, 1: 1, "all": -1, -1: -1}[acks]


def test_a_batch_too_large_for_the_topic_is_split(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1}, max_message_bytes=2_000)
    sent = [b"%03d" % number + b"x" * 97 for number in range(300)]
    with quick(cluster) as producer:
        futures = [producer.submit(TOPIC, value) for value in sent[:150]]
        report = producer.send_many(TOPIC, sent[150:])
        assert [future.result(10).offset for future in futures] == list(range(150))
    assert report.count == 150
    assert report.offsets == {TP: (150, 299)}
    assert values(cluster) == sent


def test_in_a_split_batch_only_the_record_too_large_fails(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1}, max_message_bytes=1_000)
    with quick(cluster, linger_ms=1000) as producer:
        futures = [producer.submit(TOPIC, b"x" * size) for size in (10, 20, 30, 5_000, 40, 50)]
        producer.send(TOPIC, b"last")
        errors = [future.exception(10) for future in futures]
        assert [type(error) for error in errors] == [
            type(None), type(None), type(None), RecordTooLarge, type(None), type(None)
        ]  # fmt: skip
        producer.flush()  # its error was looked at
    assert [len(value or b"") for value in values(cluster)] == [10, 20, 30, 40, 50, 4]


def test_a_record_too_large_is_refused_before_it_is_queued(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster, max_request_size=1000) as producer:
        for refused in (
            lambda: producer.send(TOPIC, b"x" * 1000),
            lambda: producer.submit(TOPIC, b"x" * 500, key=b"y" * 500),
            lambda: producer.send(TOPIC, b"", headers=[("h", b"x" * 1000)]),
            lambda: producer.send_many(TOPIC, [b"x" * 1000]),
            lambda: producer.send_many(TOPIC, [(b"y" * 500, b"x" * 500)]),
        ):
            with pytest.raises(RecordTooLarge, match="max_request_size"):
                refused()
        producer.send(TOPIC, b"fits")
    assert values(cluster) == [b"fits"]


def test_a_full_buffer_blocks_and_then_gives_up(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster, buffer_memory=2_000, max_block_ms=200, batch_size=500) as producer:
        producer.send(TOPIC, b"0")
        cluster.pause(1)
        with pytest.raises(KafkaTimeout, match="buffer_memory"):
            submit_many(producer, 100)
        taken = producer.metrics()["buffer_bytes"]
        assert 2_000 <= taken < 2_500
        room = threading.Thread(target=lambda: producer.submit(TOPIC, b"later"))
        room.start()
        cluster.resume(1)
        room.join(10)
        producer.flush(10)
        assert producer.metrics()["buffer_bytes"] == 0
    assert values(cluster)[-1] == b"later"


def test_a_slow_broker_bounds_the_memory_of_send_many(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    highest = 0
    with quick(cluster, buffer_memory=20_000, batch_size=2_000) as producer:

        def records() -> Any:
            nonlocal highest
            for number in range(3_000):
                highest = max(highest, producer.metrics()["buffer_bytes"])
                yield b"%04d" % number + b"x" * 96

        cluster.on("Produce", delay(0.001), times=None)
        assert producer.send_many(TOPIC, records()).count == 3_000
    assert [value[:4] for value in values(cluster) if value] == [b"%04d" % n for n in range(3_000)]
    assert highest <= 22_000


def test_a_serializer_that_raises_costs_only_its_record(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster, value_serializer=lambda text: str(text).encode("ascii")) as producer:
        producer.send(TOPIC, "a")
        with pytest.raises(SerializationError, match="value_serializer.*orders.*UnicodeEncode"):
            producer.send(TOPIC, "ä")
        with pytest.raises(SerializationError):
            producer.send_many(TOPIC, ["b", "ö"])
        producer.send(TOPIC, None)
        producer.send_many(TOPIC, [ProducerRecord(TOPIC, "c"), "d", (None, "e")])  # type: ignore[arg-type]
    assert values(cluster) == [b"a", None, b"c", b"d", b"e"]


@pytest.mark.parametrize("bad", ["text", 5, 1.5, {"a": 1}, object()])
def test_what_is_not_bytes_is_refused_with_advice(bad: object, fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:
        for refused in (
            lambda: producer.send(TOPIC, bad),
            lambda: producer.submit(TOPIC, bad),
            lambda: producer.send_many(TOPIC, [bad]),
            lambda: producer.send_many(TOPIC, [(b"key", bad)]),
        ):
            with pytest.raises(SerializationError, match="value_serializer"):
                refused()
        with pytest.raises(SerializationError, match="key_serializer"):
            producer.send(TOPIC, b"", key=bad)
        producer.flush()
        assert producer.send(TOPIC, bytearray(b"b"), key=memoryview(b"k")).offset == 0
    assert values(cluster) == [b"b"]


def test_bad_headers_and_timestamps_leave_the_batch_as_it_was(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    bad_headers: list[Any] = [[("h", "text")], [(b"h", b"")], ["h"], [("h",)], [None], 5]
    with quick(cluster, linger_ms=500) as producer:
        first = producer.submit(TOPIC, b"0")
        for headers in bad_headers:
            with pytest.raises(SerializationError, match="header"):
                producer.submit(TOPIC, b"bad", headers=headers)
        with pytest.raises(SerializationError, match="timestamp_ms"):
            producer.submit(TOPIC, b"bad", timestamp_ms=1.5)  # type: ignore[arg-type]
        second = producer.submit(TOPIC, b"1", headers=[("h", None)], timestamp_ms=7)
        producer.flush()
        assert (first.result().offset, second.result()) == (0, RecordMetadata(TOPIC, 0, 1, 7))
    assert values(cluster) == [b"0", b"1"]


def test_a_partition_that_does_not_exist(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 2})
    with quick(cluster) as producer:
        for number in (-1, 2):
            with pytest.raises(TopicNotFound, match="it has 2, from 0"):
                producer.send(TOPIC, b"", partition=number)


def test_an_error_that_is_final_fails_at_once(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:
        cluster.on("Produce", error_code(29))
        with pytest.raises(NotAuthorized, match="ACL"):
            producer.send(TOPIC, b"0")
        cluster.on("Produce", error_code(29))
        with pytest.raises(DeliveryError, match="2 records were not delivered") as caught:
            producer.send_many(TOPIC, [b"1", b"2"])
        (failure,) = caught.value.failures
        assert (failure.topic, failure.partition, failure.count) == (TOPIC, 0, 2)
        assert isinstance(failure.error, NotAuthorized)
        cluster.on("Produce", error_code(29))
        unseen = producer.submit(TOPIC, b"3")
        with pytest.raises(DeliveryError, match="1 records"):
            producer.flush()
        producer.flush()
        assert unseen.exception()
        assert producer.send(TOPIC, b"4").offset == 0
        assert producer.metrics()["errors"] == 4
    assert values(cluster) == [b"4"]


def test_send_many_stops_an_endless_iterable_at_a_failure(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster, batch_size=1_000) as producer:
        cluster.on("Produce", error_code(29), nth=5, times=None)

        def endless() -> Any:
            while True:
                yield b"x" * 100

        with pytest.raises(DeliveryError) as caught:
            producer.send_many(TOPIC, endless())
        assert caught.value.report.count == len(values(cluster)) > 0  # type: ignore[attr-defined]


def test_delivery_timeout(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster, delivery_timeout_ms=400, request_timeout_ms=200) as producer:
        producer.send(TOPIC, b"0")
        cluster.pause(1)
        future = producer.submit(TOPIC, b"1")
        error = future.exception(10)
        assert isinstance(error, KafkaTimeout)
        assert "may have been written" in str(error)
        assert "delivery_timeout_ms" in str(error)
        cluster.resume(1)
        assert producer.send(TOPIC, b"2", timeout=10).offset > 0
    kept = values(cluster)
    assert kept[0] == b"0"
    assert kept[-1] == b"2"
    assert len(set(kept)) == len(kept)


def test_a_timeout_of_send_says_why_and_leaves_the_record_to_close(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:
        producer.send(TOPIC, b"0")
        cluster.pause(1)
        with pytest.raises(KafkaTimeout, match=r"sending a record to 'orders'.*0\.2 s.*broker 1"):
            producer.send(TOPIC, b"1", timeout=0.2)
        cluster.resume(1)
    assert values(cluster) == [b"0", b"1"]


def test_no_broker_answers(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:
        producer.send(TOPIC, b"0")
        cluster.kill(1)
        with pytest.raises(KafkaTimeout, match="no TCP connection|hung up|closed"):
            producer.send(TOPIC, b"1", timeout=0.5)
        cluster.start(1)
        assert producer.send(TOPIC, b"2", timeout=10).offset == 2
    assert values(cluster) == [b"0", b"1", b"2"]


def test_a_topic_that_vanishes_and_comes_back_loses_nothing(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:
        producer.send(TOPIC, b"0")
        unknown = cluster.on("Metadata", error_code(3), times=None)
        refused = cluster.on("Produce", error_code(3), times=2)
        future = producer.submit(TOPIC, b"1")
        refused.await_hit(times=2)
        unknown.await_hit()
        unknown.cancel()
        assert future.result(10).offset == 1
        assert producer.send(TOPIC, b"2").offset == 2
    assert values(cluster) == [b"0", b"1", b"2"]
    sequences = [
        batch.base_sequence for seen in cluster.requests("Produce") for batch in produced(seen)
    ]
    assert sequences == [0, 1, 1, 1, 2]


def test_a_topic_that_is_made_anew_starts_anew(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:
        assert [producer.send(TOPIC, b"old").offset for _ in range(2)] == [0, 1]
        cluster.delete_topic(TOPIC)
        cluster.create_topic(TOPIC, 1)
        assert [producer.send(TOPIC, b"new", timeout=10).offset for _ in range(2)] == [0, 1]
    assert values(cluster) == [b"new", b"new"]


def test_a_topic_that_grows_gets_records_in_its_new_partitions(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster, metadata_max_age_ms=50) as producer:
        producer.send(TOPIC, b"")
        with cluster._state.changed:
            cluster._state.grow_topic(TOPIC, 4)
        deadline = time.monotonic() + 10
        while producer.partitions_for(TOPIC) != [0, 1, 2, 3]:
            assert time.monotonic() < deadline
            producer.send(TOPIC, b"")
        assert producer.send(TOPIC, b"", partition=3).offset == 0


def test_a_topic_that_does_not_exist(fake_cluster: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kclient.cluster.metadata._CREATION_GRACE", 0.2)
    cluster = fake_cluster()
    with quick(cluster) as producer, pytest.raises(TopicNotFound, match="check its name"):
        producer.send("nowhere", b"")


def test_a_topic_is_made_where_the_broker_does_so(fake_cluster: Start) -> None:
    cluster = fake_cluster(auto_create_topics=True)
    with quick(cluster) as producer:
        assert producer.send("fresh", b"1").offset == 0


OLD: dict[str, Any] = {
    "0.8": KAFKA_0_8,
    "0.9": KAFKA_0_9,
    "0.10": {"Produce": 2, "Metadata": 2, "InitProducerId": None},
    "0.11": {"Produce": 3, "Metadata": 4, "InitProducerId": 0},
    "2.0": {"Produce": 6, "Metadata": 6},
    "2.4": {"Produce": 8, "Metadata": 9},
    "3.9": {"Produce": 11, "Metadata": 12},
    "4.0": {"Produce": 12, "Metadata": 13},
}


@pytest.mark.parametrize("age", OLD)
def test_brokers_of_every_age(age: str, fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1}, speaks=OLD[age])
    with quick(cluster, compression_type="gzip") as producer:
        producer.send(TOPIC, b"0", key=b"k", timestamp_ms=5)
        producer.submit(TOPIC, None, key=b"k", timestamp_ms=6)
        report = producer.send_many(TOPIC, [(b"k", b"2"), (None, None)])
        producer.flush()
    log = cluster.records(TP)
    assert [(each.key, each.value) for each in log[:2]] == [(b"k", b"0"), (b"k", None)]
    assert {(each.key, each.value) for each in log[2:]} == {(b"k", b"2"), (None, None)}
    assert report.count == 2
    has_times = age not in ("0.8", "0.9")
    assert [each.timestamp for each in log[:2]] == ([5, 6] if has_times else [-1, -1])
    kind = TimestampType.CREATE_TIME if has_times else TimestampType.NONE
    assert log[0].timestamp_type == kind


@pytest.mark.parametrize("age", ["0.8", "0.9", "0.10"])
def test_what_old_brokers_cannot_store_is_said(age: str, fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1}, speaks=OLD[age])
    with quick(cluster) as producer:
        with pytest.raises(UnsupportedVersion, match="headers"):
            producer.send(TOPIC, b"", headers=[("h", b"")])
        assert producer.send(TOPIC, b"1").offset == 0
    with (
        quick(cluster, compression_type="zstd") as producer,
        pytest.raises(UnsupportedVersion, match="zstd"),
    ):
        producer.send(TOPIC, b"")
    with quick(cluster, enable_idempotence=True) as producer, pytest.raises(UnsupportedVersion):
        producer.send(TOPIC, b"")


def test_close_tells_what_it_could_not_deliver(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    producer = quick(cluster)
    producer.send(TOPIC, b"0")
    cluster.pause(1)
    futures = [producer.submit(TOPIC, b"x") for _ in range(3)]
    with pytest.raises(DeliveryError, match="3 records were not delivered"):
        producer.close(0.2)
    assert all(isinstance(future.exception(0), ClientClosedError) for future in futures)
    producer.close()
    for refused in (
        lambda: producer.send(TOPIC, b""),
        lambda: producer.submit(TOPIC, b""),
        lambda: producer.send_many(TOPIC, [b""]),
        producer.flush,
        lambda: producer.partitions_for(TOPIC),
    ):
        with pytest.raises(ClientClosedError):
            refused()
    cluster.resume(1)


def test_close_ends_the_calls_of_other_threads(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    producer = quick(cluster, buffer_memory=1_000)
    producer.send(TOPIC, b"0")
    cluster.pause(1)
    errors: list[BaseException] = []

    def sending() -> None:
        try:
            producer.send(TOPIC, b"x" * 1_000)
        except ClientClosedError as error:
            errors.append(error)

    threads = [threading.Thread(target=sending) for _ in range(4)]
    for thread in threads:
        thread.start()
    eventually(lambda: producer.metrics()["batches_waiting"], "a record waits")
    producer.close(0.1)
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert len(errors) == 4
    cluster.resume(1)


def test_the_session_is_renewed_while_records_go_on(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1}, sasl=True, session_lifetime_ms=400)
    login: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "ann",
        "sasl_plain_password": "secret",
    }
    with quick(cluster, **login) as producer:
        count = 0
        while len(cluster.requests("SaslAuthenticate")) < 6:
            assert producer.send(TOPIC, b"", timeout=5).offset == count
            count += 1


def test_an_idle_connection_that_the_broker_closed_is_replaced(
    fake_cluster: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kclient.delivery.lines._QUIET_SECONDS", 0.0)
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:
        producer.send(TOPIC, b"0")
        cluster.hang_up(1)
        producer.send(TOPIC, b"1")
        assert producer.metrics()["retries"] == 0
    assert values(cluster) == [b"0", b"1"]


def test_metrics(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster, compression_type="gzip") as producer:
        producer.send_many(TOPIC, [b"x" * 1000] * 100)
        found = producer.metrics()
    assert found["records"] == 100
    assert found["compression_ratio"] > 5
    assert found["request_latency_ms_p99"] >= found["request_latency_ms_p50"] > 0
    assert (found["buffer_bytes"], found["batches_waiting"], found["errors"]) == (0, 0, 0)


def test_repr_shows_no_secret() -> None:
    login = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}
    secrets = {"sasl_plain_username": "ann", "sasl_plain_password": "hush"}
    producer = Producer("localhost:1", **{**QUICK, **login, **secrets})
    assert "hush" not in repr(producer)
    producer.close()


@pytest.mark.parametrize("name", [b"orders", None, "", 5])
def test_a_topic_that_is_no_name(name: Any, fake_cluster: Start) -> None:
    with quick(fake_cluster()) as producer, pytest.raises(ConfigError, match="named by text"):
        producer.send(name, b"")


def test_one_record_is_no_iterable_of_records(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:
        for record in (b"abc", "abc"):
            with pytest.raises(SerializationError, match="use send for a single record"):
                producer.send_many(TOPIC, record)


def test_an_unknown_codec_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="lz5"):
        Producer("localhost:1", compression_type="lz5")
