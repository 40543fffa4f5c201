"""The text of the configuration files: server.properties, zoo.cfg, log4j."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kclient.testing.ports import HOST, HOST_NAME
from kclient.testing.releases import Release

SESSION_TIMEOUT_MS = 6000
"""How long a killed broker counts as alive: the default of 9 to 18 s makes tests wait."""


@dataclass(frozen=True)
class NodeAddress:
    """Where one broker listens. ``controller_port`` is 0 for the ZooKeeper age."""

    node: int
    port: int
    controller_port: int = 0
    more_ports: Mapping[str, int] = field(default_factory=dict)
    """The ports of listeners besides the plaintext one, by their names."""


@dataclass(frozen=True)
class Listener:
    """A listener besides the plaintext one; its properties are without ``listener.name.``."""

    name: str
    protocol: str
    properties: Mapping[str, str]


def with_listeners(
    properties: Mapping[str, str], address: NodeAddress, listeners: Sequence[Listener]
) -> dict[str, str]:
    """Return a node's properties with more listeners, advertised by a name: TLS checks it."""
    known = properties.get("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT")
    bound, advertised = [properties["listeners"]], [f"PLAINTEXT://{HOST}:{address.port}"]
    protocols, own = [known], {}
    for each in listeners:
        port = address.more_ports[each.name]
        bound.append(f"{each.name}://{HOST}:{port}")
        advertised.append(f"{each.name}://{HOST_NAME}:{port}")
        protocols.append(f"{each.name}:{each.protocol}")
        prefix = f"listener.name.{each.name.lower()}"
        own.update({f"{prefix}.{key}": value for key, value in each.properties.items()})
    return {
        **properties,
        "listeners": ",".join(bound),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(protocols),
        **own,
    }


def kraft_properties(address: NodeAddress, all_nodes: Sequence[NodeAddress]) -> dict[str, str]:
    """Return what makes a node a broker and a controller of a KRaft cluster."""
    voters = ",".join(f"{each.node}@{HOST}:{each.controller_port}" for each in all_nodes)
    return {
        "process.roles": "broker,controller",
        "node.id": str(address.node),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": (
            f"PLAINTEXT://{HOST}:{address.port},CONTROLLER://{HOST}:{address.controller_port}"
        ),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "broker.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    }


def zookeeper_properties(
    address: NodeAddress, release: Release, zookeeper_port: int
) -> dict[str, str]:
    """Return what makes a node a broker of a ZooKeeper cluster."""
    properties = {
        "broker.id": str(address.node),
        "zookeeper.connect": f"{HOST}:{zookeeper_port}",
        "zookeeper.connection.timeout.ms": "30000",
        "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "delete.topic.enable": "true",  # the default since 1.0
    }
    if release.number >= (0, 9):
        properties["listeners"] = f"PLAINTEXT://{HOST}:{address.port}"
    else:
        properties.update({"host.name": HOST, "port": str(address.port)})
    return properties


def common_properties(data: Path, brokers: int, data_dirs: int = 1) -> dict[str, str]:
    """Return what every version gets: replication as wide as the cluster, quick groups.

    Folders for data besides the first have its name and a number.

    Versions that do not know a name warn and go on.
    """
    replication, min_isr = str(brokers), str(max(1, brokers - 1))
    more = [f"{data}-{number}" for number in range(2, data_dirs + 1)]
    properties = {
        "log.dirs": ",".join([str(data), *more]),
        "default.replication.factor": replication,
        "min.insync.replicas": min_isr,
        "group.initial.rebalance.delay.ms": "0",
        # 50 partitions each would be made at the first use of a group or a transaction.
        "offsets.topic.num.partitions": "6",
        "transaction.state.log.num.partitions": "6",
        "share.coordinator.state.topic.num.partitions": "6",
        "log.cleaner.dedupe.buffer.size": "16777216",  # 128 MB is half of the heap
    }
    for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        properties[f"{topic}.replication.factor"] = replication
    for topic in ("transaction.state.log", "share.coordinator.state.topic"):
        properties[f"{topic}.min.isr"] = min_isr
    return properties


def zoo_cfg(data: Path, port: int) -> dict[str, str]:
    """Return the settings of a ZooKeeper of one server."""
    return {
        "dataDir": str(data),
        "clientPort": str(port),
        "clientPortAddress": HOST,
        "tickTime": "500",  # sessions are checked this often, so the dead are noticed sooner
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "dump,ruok",
    }


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Write a Java properties file."""
    escaped = {key: value.replace("\\", "\\\\") for key, value in properties.items()}
    path.write_text("".join(f"{key}={value}\n" for key, value in escaped.items()))


def write_log_settings(folder: Path) -> list[str]:
    """Write settings that log to stdout, and return the JVM flags that name them.

    log4j 1 and 2 each look at their own flag.
    """
    pattern = "[%d] %p %m (%c)%n"
    old, new = folder / "log4j.properties", folder / "log4j2.properties"
    write_properties(
        old,
        {
            "log4j.rootLogger": "INFO, stdout",
            "log4j.appender.stdout": "org.apache.log4j.ConsoleAppender",
            "log4j.appender.stdout.layout": "org.apache.log4j.PatternLayout",
            "log4j.appender.stdout.layout.ConversionPattern": pattern,
        },
    )
    write_properties(
        new,
        {
            "appender.stdout.type": "Console",
            "appender.stdout.name": "stdout",
            "appender.stdout.layout.type": "PatternLayout",
            "appender.stdout.layout.pattern": pattern,
            "rootLogger.level": "INFO",
            "rootLogger.appenderRef.stdout.ref": "stdout",
        },
    )
    return [f"-Dlog4j.configuration={old.as_uri()}", f"-Dlog4j2.configurationFile={new.as_uri()}"]
