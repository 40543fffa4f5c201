"""LocalKafka as its users meet it: brokers that die, come back, and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from kclient.errors import ClientClosedError, ConfigError
from kclient.records import encode
from kclient.testing import LocalKafka, StartFailed
from kclient.types import ProducerRecord

from .exchange import (
    brokers,
    create_topic,
    fetch,
    leader,
    metadata,
    new_name,
    now_ms,
    produce,
    until,
)

Factory = Callable[..., LocalKafka]


@pytest.fixture(scope="module")
def trio(request: pytest.FixtureRequest, local_kafka_factory: Factory) -> Iterator[LocalKafka]:
    kafka = local_kafka_factory(brokers=3)
    yield kafka
    kafka.close(keep_logs=request.session.testsfailed > 0)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def write(kafka: LocalKafka, topic: str, value: bytes, node: int = 1) -> int:
    """Write one record to ``node``, which must lead; return the error code."""
    batch = encode([ProducerRecord(topic, value, timestamp_ms=now_ms())])
    return produce(kafka.address(node), topic, batch, 9).error_code


def values(kafka: LocalKafka, topic: str, node: int = 1) -> list[bytes | None]:
    return [record.value for record in fetch(kafka.address(node), topic, 0, 12)]


def test_data_survives_a_kill_and_goes_with_close() -> None:
    with LocalKafka() as kafka:
        folder, address, topic = kafka.log_dir.parent, kafka.bootstrap_servers, new_name()
        create_topic(address, topic)
        assert write(kafka, topic, b"before") == 0
        old = kafka.pid(1)
        kafka.kill(1)
        assert not kafka.running(1)
        assert not is_alive(old)
        assert brokers(address) == set()
        kafka.start(1)
        assert (kafka.bootstrap_servers, brokers(address)) == (address, {1})
        until(lambda: leader(address, topic) == 1, "the topic is led again")
        assert values(kafka, topic) == [b"before"]
        assert write(kafka, topic, b"after") == 0
        assert values(kafka, topic) == [b"before", b"after"]
        last = kafka.pid(1)
    assert not is_alive(last)
    assert not folder.exists()


def test_logs_stay_when_the_block_fails_and_data_goes(caplog: pytest.LogCaptureFixture) -> None:
    kafka = LocalKafka().open()
    log, pid = kafka.log_file(1), kafka.pid(1)
    with pytest.raises(ZeroDivisionError), kafka:
        raise ZeroDivisionError
    assert not is_alive(pid)
    assert "Kafka Server started" in log.read_text()
    assert not (log.parent.parent / "data").exists()
    assert str(log.parent) in caplog.text
    shutil.rmtree(log.parent.parent)


def test_a_log_dir_of_ones_own_stays(tmp_path: Path) -> None:
    with LocalKafka(log_dir=tmp_path / "logs") as kafka:
        log = kafka.log_file(1)
    assert log.parent == tmp_path / "logs"
    assert "Kafka Server started" in log.read_text()


def test_a_killed_python_leaves_no_broker_behind(tmp_path: Path) -> None:
    program = dedent("""
        import sys
        from kclient.testing import LocalKafka
        kafka = LocalKafka().open()
        print(kafka.pid(1), kafka.log_dir.parent, flush=True)
        sys.stdin.read()
    """)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as python:
        assert python.stdout is not None
        pid, folder = python.stdout.readline().split()
        assert is_alive(int(pid))
        python.send_signal(signal.SIGKILL)
    until(lambda: not is_alive(int(pid)), "the broker ends with its parent", 20)
    until(lambda: not Path(folder, "data").exists(), "its data goes", 20)


def test_a_killed_broker_is_noticed_and_replaced(trio: LocalKafka) -> None:
    topic = new_name()
    create_topic(trio.address(1), topic, replicas=3)
    lost = leader(trio.address(1), topic)
    assert write(trio, topic, b"before", lost) == 0
    left = [node for node in trio.nodes if node != lost]
    trio.kill(lost)
    addresses = [trio.address(node) for node in left]
    until(lambda: all(brokers(at) == set(left) for at in addresses), f"{lost} is missed", 30)
    until(lambda: all(leader(at, topic) in left for at in addresses), "another one leads", 30)
    heir = leader(trio.address(left[0]), topic)
    # With two of three in sync, acks=all still succeeds: min.insync.replicas is 2.
    assert write(trio, topic, b"between", heir) == 0
    trio.start(lost)
    for node in trio.nodes:
        assert brokers(trio.address(node)) == {1, 2, 3}
    assert values(trio, topic, heir) == [b"before", b"between"]


def test_a_stopped_broker_hands_over_and_comes_back(trio: LocalKafka) -> None:
    topic = new_name()
    create_topic(trio.address(1), topic, replicas=3)
    gone = leader(trio.address(1), topic)
    left = [node for node in trio.nodes if node != gone]
    trio.stop(gone)
    assert not trio.running(gone)
    # An orderly end moves leadership before it: nobody has to notice anything.
    until(lambda: leader(trio.address(left[0]), topic) in left, "another one leads", 5)
    until(lambda: brokers(trio.address(left[0])) == set(left), f"{gone} is off the list", 5)
    trio.start(gone)
    for node in trio.nodes:
        assert brokers(trio.address(node)) == {1, 2, 3}


def test_all_can_go_and_come_back_together(trio: LocalKafka) -> None:
    for node in trio.nodes:
        trio.kill(node)
    for node in trio.nodes:
        trio.start(node, wait=False)  # one alone has no majority, and cannot serve
    trio.await_ready()
    for node in trio.nodes:
        assert brokers(trio.address(node)) == {1, 2, 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"version": "0.7.2"}, "no jars are published for Kafka 0.7.2"),
        ({"version": "latest"}, "not a Kafka version: 'latest'"),
        ({"brokers": 4}, "1 to 3 brokers, not 4"),
        ({"brokers": 0}, "1 to 3 brokers, not 0"),
        ({"version": "4.3.1", "zookeeper": True}, "4.3.1 cannot run with ZooKeeper"),
        ({"version": "0.8.2.2", "listeners": {"SSL": {}}}, "0.8.2.2 has one listener"),
        ({"listeners": {"CONTROLLER": {}}}, "listener 'CONTROLLER': its name is neither of"),
        ({"listeners": {"MINE": {}}}, "security.protocol one of .*, not 'MINE'"),
    ],
)
def test_bad_arguments_are_refused_before_anything_starts(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        LocalKafka(**options)  # type: ignore[arg-type]


def test_a_node_that_does_not_exist(local_kafka: LocalKafka) -> None:
    for call in (local_kafka.kill, local_kafka.stop, local_kafka.start, local_kafka.address):
        with pytest.raises(ConfigError, match=r"there is no node 2, only \[1\]"):
            call(2)


def test_more_listeners_on_each_broker(local_kafka_factory: Factory) -> None:
    more: dict[str, dict[str, object]] = {"INSIDE": {"security.protocol": "PLAINTEXT"}}
    kafka = local_kafka_factory(brokers=2, listeners=more)
    addresses = [kafka.listener("INSIDE", node) for node in kafka.nodes]
    assert len({*addresses, *kafka.bootstrap_servers.split(",")}) == 4
    for address in addresses:
        # Whoever comes by this listener is told the addresses of this listener.
        told = {f"{each.host}:{each.port}" for each in metadata(address, 4, []).brokers}
        assert told == set(addresses)
    assert brokers(kafka.bootstrap_servers) == {1, 2}
    with pytest.raises(ConfigError, match=r"no listener 'SSL', only \['INSIDE'\]"):
        kafka.listener("SSL")
    kafka.close()


def test_a_running_node_is_not_started_twice(local_kafka: LocalKafka) -> None:
    with pytest.raises(ConfigError, match="node 1 runs already"):
        local_kafka.start(1)


def test_a_closed_one_says_so() -> None:
    kafka = LocalKafka()
    kafka.close()
    with pytest.raises(ClientClosedError, match="not open"):
        kafka.kill(1)


def test_a_bad_property_fails_with_the_end_of_the_log() -> None:
    kafka = LocalKafka(properties={"num.io.threads": "many"})
    with pytest.raises(StartFailed, match="num.io.threads") as failure:
        kafka.open()
    assert "node1 ended with code 1" in str(failure.value)
    log = Path(failure.value.log_file)  # type: ignore[attr-defined]
    assert "ConfigException" in log.read_text()
    assert not kafka.is_open
    shutil.rmtree(log.parent.parent)


def test_the_fixtures_serve_a_users_own_test(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        dedent("""
            import socket

            def answers(address):
                host, port = address.split(":")
                socket.create_connection((host, int(port)), timeout=10).close()
                return True

            def test_one(local_kafka):
                assert answers(local_kafka.bootstrap_servers)

            def test_same(local_kafka, local_kafka_factory):
                assert local_kafka.is_open and local_kafka.version == "3.9.1"
                own = local_kafka_factory(properties={"auto.create.topics.enable": False})
                assert answers(own.bootstrap_servers)
                print()
                print("PIDS", local_kafka.pid(1), own.pid(1))

            def test_fails(local_kafka):
                assert not local_kafka.is_open
        """)
    )
    options = ["-p", "no:cacheprovider", "-s", "--kafka-version", "3.9.1"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": "", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert "1 failed" in done.stdout
    assert "tests failed, the brokers' logs are in" in done.stdout
    (pids,) = (line.split()[1:] for line in done.stdout.splitlines() if line.startswith("PIDS"))
    assert not any(is_alive(int(pid)) for pid in pids)
