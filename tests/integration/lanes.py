"""Which cluster the integration tests talk to: a given one, a container, or a local Kafka."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from testcontainers.core.container import DockerContainer

from kclient.testing.ports import lease_port

from .exchange import brokers, until

DEFAULT_IMAGE = "apache/kafka:4.3.1"
START_SECONDS = 120.0
PULL_SECONDS = 240.0


def no_container() -> str:
    """Why no container can be used, or "" if one can.

    An image that was asked for by name is not looked for: that it is missing must fail.
    """
    if not _docker("version", timeout=20):
        return "no Docker engine answers"
    if os.environ.get("KCLIENT_TEST_IMAGE"):
        return ""
    if not _docker("image", "inspect", DEFAULT_IMAGE) and not _docker("pull", DEFAULT_IMAGE):
        return f"the image {DEFAULT_IMAGE} is neither here nor to be pulled"
    return ""


def _docker(*arguments: str, timeout: float = PULL_SECONDS) -> bool:
    """Whether this command of Docker's own program succeeds.

    The Python library would leak a socket for each engine that does not answer.
    """
    try:
        done = subprocess.run(["docker", *arguments], capture_output=True, timeout=timeout)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


@contextmanager
def container() -> Iterator[tuple[str, str]]:
    """Run Kafka in a container; yields its address and the image's name."""
    image = os.environ.get("KCLIENT_TEST_IMAGE") or DEFAULT_IMAGE
    lease = lease_port()
    box = DockerContainer(image).with_bind_ports(9092, lease.port)
    host = box.get_docker_client().host().replace("localhost", "127.0.0.1")
    address = f"{host}:{lease.port}"
    try:
        with box.with_envs(**_environment(address)):
            _await_kafka(box, address)
            yield address, image
    finally:
        lease.release()


def _environment(address: str) -> dict[str, str]:
    """Server properties in the spelling of the official image."""
    properties = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.quorum.voters": "1@localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        # Clients are outside: they need the port that the engine forwards.
        "advertised.listeners": f"PLAINTEXT://{address}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "group.initial.rebalance.delay.ms": "0",
    }
    for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        properties[f"{topic}.replication.factor"] = "1"
    for topic in ("transaction.state.log", "share.coordinator.state.topic"):
        properties[f"{topic}.min.isr"] = "1"
    return {f"KAFKA_{key.upper().replace('.', '_')}": text for key, text in properties.items()}


def _await_kafka(box: DockerContainer, address: str) -> None:
    try:
        until(lambda: brokers(address) == {1}, f"{box.image} serves", START_SECONDS)
    except AssertionError as error:
        shown, complaints = box.get_logs()
        raise AssertionError(f"{error}\n{(shown + complaints).decode()[-4000:]}") from None
