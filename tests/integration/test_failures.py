"""Failures that people meet: each told by its stage, with what to do, by client and doctor."""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from kclient import Admin, diagnose
from kclient.errors import KafkaError, KafkaTimeout
from kclient.testing import LocalKafka

from .logins import Secured

HTTP = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
SSH = b"SSH-2.0-OpenSSH_9.2p1\r\n"


@contextmanager
def port_that(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A port whose connections are served by ``serve``, one after the other."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                with sock:
                    sock.settimeout(30)
                    try:
                        serve(sock)
                    except OSError:
                        continue

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(30)


def answers(data: bytes) -> Callable[[socket.socket], None]:
    def serve(sock: socket.socket) -> None:
        sock.recv(65536)
        sock.sendall(data)
        read_all(sock)

    return serve


def greets(data: bytes) -> Callable[[socket.socket], None]:
    def serve(sock: socket.socket) -> None:
        sock.sendall(data)
        read_all(sock)

    return serve


def read_all(sock: socket.socket) -> None:
    while sock.recv(65536):
        pass


@contextmanager
def refused_port() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    yield address


@contextmanager
def black_hole() -> Iterator[str]:
    """A port whose backlog is full: a connection to it is neither made nor refused."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        where = listener.getsockname()
        for _ in range(16):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(where)
        with pytest.raises(TimeoutError), socket.create_connection(where, timeout=0.5):
            pass
        yield f"127.0.0.1:{where[1]}"


def last_error(address: str, seconds: float, **options: Any) -> KafkaError:
    """What a user gets to see, whether at once or when the time is over."""
    with Admin(address, **options) as admin, pytest.raises(KafkaError) as got:
        admin.list_topics(timeout=seconds)
    error: KafkaError = pickle.loads(pickle.dumps(got.value))
    assert str(error) == str(got.value)
    cause = error.cause if isinstance(error, KafkaTimeout) else None
    return cause if isinstance(cause, KafkaError) else error


def doctor(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """Run it as a person would; its exit code and the steps that failed."""
    done = run_doctor(*arguments, "--json")
    found = json.loads(done.stdout)
    assert found["healthy"] == (done.returncode == 0)
    return done.returncode, [step for step in found["steps"] if step["outcome"] == "failed"]


def run_doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "kclient.cli", "doctor", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONDEVMODE": "1"},
    )


def check(address: str, stage: str, sentence: str, seconds: float = 3) -> None:
    """The client and the doctor both say the same, at the same stage."""
    error = last_error(address, seconds)
    assert sentence in str(error)
    assert address in str(error)
    code, failed = doctor("--bootstrap-servers", address, "--timeout", str(seconds))
    assert code == 1
    assert [step["stage"] for step in failed] == [stage]
    assert sentence in failed[0]["detail"]
    assert failed[0]["advice"]


def test_a_name_that_does_not_resolve() -> None:
    check("kafka.invalid:9092", "DNS", "the name 'kafka.invalid' cannot be resolved here")


def test_nobody_listens() -> None:
    with refused_port() as address:
        check(address, "TCP", "Connection refused); is the broker up, and is this its port?")


def test_a_black_hole() -> None:
    with black_hole() as address:
        check(address, "TCP", "timed out); is a firewall in between, or the host down?", 1)


@pytest.mark.parametrize(
    ("serve", "sentence"),
    [
        (answers(HTTP), "it speaks HTTP: is this the port of a web server or proxy?"),
        (greets(SSH), "it speaks SSH: is the port right?"),
        (greets(b"220 mail ESMTP\r\n"), "it begins with b'220 mail ESMTP\\r\\n': is this a Kafka"),
        (read_all, "connected, but no answer within"),
        (lambda sock: None, "whoever is there hangs up on every request; is it a Kafka listener"),
    ],
    ids=["http", "ssh", "smtp", "silent", "hangs up"],
)
def test_it_is_not_kafka(serve: Callable[[socket.socket], None], sentence: str) -> None:
    with port_that(serve) as address:
        check(address, "ApiVersions", sentence, 1)


def test_what_cannot_get_better_is_told_at_once() -> None:
    with port_that(answers(HTTP)) as address, Admin(address) as admin:
        with pytest.raises(KafkaError) as got:
            admin.list_topics(timeout=600)
        assert not isinstance(got.value, KafkaTimeout)


def test_plaintext_on_a_tls_port(secured: Secured) -> None:
    address = secured.kafka.listener("SSL")
    error = last_error(address, 10)
    assert "security_protocol" in str(error)
    code, failed = doctor("--bootstrap-servers", address)
    assert (code, [step["stage"] for step in failed]) == (1, ["ApiVersions"])
    assert "security_protocol" in failed[0]["detail"]


def test_plaintext_on_a_port_that_wants_a_login(secured: Secured) -> None:
    address = secured.kafka.listener("SASL_PLAINTEXT")
    error = last_error(address, 600)  # told at once, not when the time is over
    assert "this listener wants a login (security_protocol SASL_PLAINTEXT" in str(error)
    code, failed = doctor("--bootstrap-servers", address)
    assert (code, [step["stage"] for step in failed]) == (1, ["ApiVersions"])
    assert "wants a login" in failed[0]["detail"]


def test_a_wrong_password_is_told_and_not_shown(secured: Secured) -> None:
    address = secured.kafka.listener("SASL_PLAINTEXT")
    done = run_doctor(
        *("--bootstrap-servers", address, "-X", "security.protocol=SASL_PLAINTEXT"),
        *("-X", "sasl.mechanism=PLAIN", "-X", "sasl.username=alice"),
        *("-X", "sasl.password=Sw0rdfish"),
    )
    assert done.returncode == 1
    assert "failed   SASL" in done.stdout
    assert "Sw0rdfish" not in done.stdout + done.stderr


def test_a_tls_listener_is_walked_to_the_end(secured: Secured) -> None:
    address = secured.kafka.listener("SSL")
    found = diagnose(address, security_protocol="SSL", ssl_cafile=secured.ca)
    assert {step.stage.value: step.outcome.value for step in found.steps} == {
        "DNS": "ok",
        "TCP": "ok",
        "TLS": "ok",
        "ApiVersions": "ok",
        "SASL": "skipped",
        "Metadata": "ok",
        "Listener": "ok",
        "Coordinator": "ok",
    }
    code, failed = doctor("--bootstrap-servers", address, "-X", "security.protocol=SSL")
    assert (code, [step["stage"] for step in failed]) == (1, ["TLS"])
    assert "give the CA that signed it as ssl_cafile" in failed[0]["detail"]


def test_the_cluster_is_reached_but_advertises_what_is_not(
    local_kafka_factory: Callable[..., LocalKafka],
) -> None:
    kafka = local_kafka_factory(
        properties={"advertised.listeners": "PLAINTEXT://kafka-1.invalid:9092"}
    )
    with Admin(kafka.bootstrap_servers) as admin, pytest.raises(KafkaTimeout) as got:
        admin.create_topic("orders", timeout=5)
    sentence = "the cluster was reached, but broker 1 advertises kafka-1.invalid:9092"
    assert sentence in str(got.value)
    assert "cannot be resolved here" in str(got.value)
    code, failed = doctor("--bootstrap-servers", kafka.bootstrap_servers, "--timeout", "5")
    assert code == 1
    assert failed[0]["stage"] == "Listener"
    assert sentence in failed[0]["detail"]
    assert "correct advertised.listeners there" in failed[0]["advice"]
    kafka.close()


def test_a_healthy_cluster(bootstrap_servers: str, tmp_path: Any) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={bootstrap_servers}\nacks=all\ngroup.id=mine\n")
    done = run_doctor("--properties", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("\nAll is well.\n")
    for stage in ("DNS", "TCP", "ApiVersions", "Metadata", "Listener", "Coordinator"):
        assert f"ok       {stage}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "say where the cluster is"),
        (("-X", "bootstrap.server=x:1"), "did you mean 'bootstrap.servers'?"),
        (("--bootstrap-servers", "x:y"), "'x:y' is not host:port"),
        (("--properties", "/nowhere/file"), "the properties file /nowhere/file cannot be read"),
        (("--bootstrap-servers", "x", "--timeout", "0"), "timeout is a number of seconds above 0"),
    ],
)
def test_wrong_usage_has_its_own_exit_code(arguments: tuple[str, ...], sentence: str) -> None:
    done = run_doctor(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
