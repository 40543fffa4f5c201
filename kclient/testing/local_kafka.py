"""A real Apache Kafka on this machine, from its published jars: no Docker needed."""

from __future__ import annotations

import atexit
import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from kclient.config.client import PROTOCOLS
from kclient.errors import ClientClosedError, ConfigError
from kclient.testing.cluster import Cluster, Plan
from kclient.testing.ports import HOST, HOST_NAME
from kclient.testing.releases import DEFAULT_VERSION, Release, find_release
from kclient.testing.settings import Listener

_log = logging.getLogger(__name__)
_OUR_LISTENERS = ("PLAINTEXT", "CONTROLLER")

PropertyValue = str | int | float
"""A server property; True and False are written the Java way."""


class LocalKafka:
    """A Kafka cluster of 1 to 3 brokers on 127.0.0.1, for tests and trying things out.

    ::

        with LocalKafka() as kafka:
            Producer(kafka.bootstrap_servers)

    Nodes are numbered from 1. Data goes with the cluster; logs stay when the ``with`` block
    fails. The brokers end with this Python process, however it ends.

    Args:
        version: any Kafka from 0.8.0 on. Those of ``kclient.testing.releases.RELEASES`` are
            tested; others run like the nearest older one of them.
        brokers: how many. Topics are replicated to all of them, and with 3 the minimum of
            in-sync replicas is 2. On KRaft each broker is a controller too, so a majority
            has to be up.
        properties: more ``server.properties`` for each broker; they win over ours.
        listeners: more ports to listen on, besides the plaintext one: the properties of each
            by its name, without Kafka's prefix ``listener.name.<name>.``. The name is its
            protocol (``SASL_SSL``), or the property ``security.protocol`` says it. Brokers
            advertise them by the name ``localhost``; see ``listener()``.
        data_dirs: how many folders each broker keeps its data in.
        zookeeper: True runs a version that has both (3.9) with ZooKeeper instead of KRaft.
        log_dir: where the brokers' output goes, and stays; else into a temporary folder.
        start_timeout: seconds until the cluster, or a node started later, must serve.
        heap_mb: each broker's heap; 512 for Kafka 4, 300 for older ones.
        jvm_flags: more flags for the brokers' JVMs. ``-XX:TieredStopAtLevel=1`` starts half
            a second sooner, and makes a slower broker.

    Raises:
        ConfigError: an argument is out of its range.
    """

    def __init__(
        self,
        version: str = DEFAULT_VERSION,
        brokers: int = 1,
        *,
        properties: Mapping[str, PropertyValue] | None = None,
        listeners: Mapping[str, Mapping[str, PropertyValue]] | None = None,
        data_dirs: int = 1,
        zookeeper: bool = False,
        log_dir: str | os.PathLike[str] | None = None,
        start_timeout: float = 120.0,
        heap_mb: int | None = None,
        jvm_flags: Sequence[str] = (),
    ) -> None:
        release = find_release(version)
        if not 1 <= brokers <= 3:
            raise ConfigError(f"a local cluster has 1 to 3 brokers, not {brokers}")
        self._plan = Plan(
            release=release,
            brokers=brokers,
            zookeeper=_needs_zookeeper(release, zookeeper),
            properties={key: _java_text(value) for key, value in (properties or {}).items()},
            log_dir=Path(log_dir).absolute() if log_dir is not None else None,
            start_timeout=start_timeout,
            heap_mb=heap_mb or release.heap_mb,
            jvm_flags=tuple(jvm_flags),
            listeners=_read_listeners(release, listeners or {}),
            data_dirs=data_dirs,
        )
        self._cluster: Cluster | None = None
        self._owner = 0

    def open(self) -> LocalKafka:
        """Start the cluster, fetching its jars the first time, and wait until it serves.

        Raises StartFailed with the end of the log when a broker does not come up,
        MissingTool or FetchFailed when its jars cannot be had. Does nothing if it is open.
        """
        if self._cluster is None:
            self._owner = os.getpid()
            self._cluster = Cluster(self._plan)
            atexit.register(self.close)
            try:
                self._cluster.open()
            except BaseException:
                self.close(keep_logs=True)
                raise
        return self

    def close(self, *, keep_logs: bool = False) -> None:
        """Kill the brokers and remove their data, and their logs unless ``keep_logs``."""
        # A forked child has a copy of this object, not of the cluster.
        if self._cluster is None or os.getpid() != self._owner:
            return
        cluster, self._cluster = self._cluster, None
        atexit.unregister(self.close)
        cluster.close(keep_logs=keep_logs)
        if keep_logs:
            _log.warning("the logs of Kafka %s are in %s", self.version, cluster.log_dir)

    def kill(self, node: int) -> None:
        """End a broker with SIGKILL. The others notice within about 6 seconds."""
        self._checked(node).kill(node)

    def stop(self, node: int, timeout: float = 60.0) -> None:
        """End a broker with SIGTERM: it hands its partitions over first.

        Raises KafkaTimeout after ``timeout`` seconds, and kills it.
        """
        self._checked(node).stop(node, timeout)

    def start(self, node: int, *, wait: bool = True) -> None:
        """Start a broker that was killed or stopped, with the same data and port.

        With ``wait`` it returns when the broker serves and the others know; without it at
        once, for nodes that can only serve together (see ``await_ready``). Kafka lets a node
        come back when its old session has ended, up to 6 seconds later. Raises StartFailed.
        """
        cluster = self._checked(node)
        if cluster.running(node):
            raise ConfigError(f"node {node} runs already")
        deadline = time.monotonic() + self._plan.start_timeout
        cluster.start(node, deadline)
        if wait:
            cluster.await_ready([node], deadline)

    def await_ready(self) -> None:
        """Wait until every broker that runs serves and is known to the others.

        Raises StartFailed when one of them ends, or ``start_timeout`` has passed.
        """
        cluster = self._opened()
        running = [node for node in self.nodes if cluster.running(node)]
        cluster.await_ready(running, time.monotonic() + self._plan.start_timeout)

    @property
    def is_open(self) -> bool:
        """Whether it has been opened and not closed since."""
        return self._cluster is not None

    @property
    def version(self) -> str:
        """The version of Kafka."""
        return self._plan.release.version

    @property
    def nodes(self) -> tuple[int, ...]:
        """The broker ids, whether they run or not."""
        return tuple(range(1, self._plan.brokers + 1))

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of each broker, with commas."""
        return ",".join(self.address(node) for node in self.nodes)

    @property
    def cluster_id(self) -> str | None:
        """The id the cluster was made with; None on ZooKeeper, where it makes its own."""
        return None if self._plan.zookeeper else self._opened().cluster_id

    @property
    def log_dir(self) -> Path:
        """The folder with a log file for each process."""
        return self._opened().log_dir

    def address(self, node: int) -> str:
        """Return ``host:port`` of one broker."""
        return f"{HOST}:{self._checked(node).addresses[node].port}"

    def listener(self, name: str, node: int = 1) -> str:
        """Return ``host:port`` of a listener of one broker. Raises ConfigError for others."""
        ports = self._checked(node).addresses[node].more_ports
        if name not in ports:
            raise ConfigError(f"there is no listener {name!r}, only {list(ports)}")
        return f"{HOST_NAME}:{ports[name]}"

    def running(self, node: int) -> bool:
        """Whether the broker's process runs."""
        return self._checked(node).running(node)

    def pid(self, node: int) -> int:
        """Return the process id of a broker, to send it other signals."""
        return self._checked(node).pid(node)

    def log_file(self, node: int) -> Path:
        """Return the file with a broker's output."""
        return self._checked(node).log_file(node)

    def __enter__(self) -> LocalKafka:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(keep_logs=error is not None)

    def __repr__(self) -> str:
        where = self.bootstrap_servers if self._cluster else "closed"
        return f"<LocalKafka {self.version} brokers={self._plan.brokers} {where}>"

    def _opened(self) -> Cluster:
        if self._cluster is None:
            raise ClientClosedError("this LocalKafka is not open: use `with` or call open()")
        return self._cluster

    def _checked(self, node: int) -> Cluster:
        if node not in self.nodes:
            raise ConfigError(f"there is no node {node}, only {list(self.nodes)}")
        return self._opened()


def _needs_zookeeper(release: Release, wanted: bool) -> bool:
    if wanted and release.number >= (4,):
        raise ConfigError(f"Kafka {release.version} cannot run with ZooKeeper: 4.0 dropped it")
    return wanted or not release.kraft


def _read_listeners(
    release: Release, listeners: Mapping[str, Mapping[str, PropertyValue]]
) -> tuple[Listener, ...]:
    if listeners and release.number < (0, 9):
        raise ConfigError(f"Kafka {release.version} has one listener: more came with 0.9")
    found = []
    for name, given in listeners.items():
        properties = {key: _java_text(value) for key, value in given.items()}
        protocol = properties.pop("security.protocol", name)
        if name in _OUR_LISTENERS or protocol not in PROTOCOLS:
            raise ConfigError(
                f"listener {name!r}: its name is neither of {_OUR_LISTENERS}, and its "
                f"security.protocol one of {PROTOCOLS}, not {protocol!r}"
            )
        found.append(Listener(name, protocol, properties))
    return tuple(found)


def _java_text(value: PropertyValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
