"""A cluster that exists: its folder, ports and processes, from start to removal."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kclient.errors import KafkaTimeout
from kclient.testing.errors import StartFailed
from kclient.testing.jvm import (
    BROKER_CLASS,
    ZOOKEEPER_CLASS,
    ZOOKEEPER_HEAP_MB,
    ClassArchive,
    java,
)
from kclient.testing.ports import PortLease, lease_port
from kclient.testing.probe import listed_brokers, zookeeper_answers, zookeeper_nodes
from kclient.testing.process import JavaProcess, Watchdog
from kclient.testing.releases import Release
from kclient.testing.settings import (
    Listener,
    NodeAddress,
    common_properties,
    kraft_properties,
    with_listeners,
    write_log_settings,
    write_properties,
    zoo_cfg,
    zookeeper_properties,
)
from kclient.testing.storage import format_data, new_id

_POLL_SECONDS = 0.03
_ARCHIVE_SECONDS = 30.0


@dataclass(frozen=True)
class Plan:
    """What to start. ``start_timeout`` is in seconds."""

    release: Release
    brokers: int
    zookeeper: bool
    properties: Mapping[str, str]
    log_dir: Path | None
    start_timeout: float
    heap_mb: int
    jvm_flags: tuple[str, ...]
    listeners: tuple[Listener, ...] = ()
    data_dirs: int = 1


class Cluster:
    """The brokers of a plan, and their ZooKeeper if they need one."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.cluster_id = new_id()
        self._archive = ClassArchive(plan.release)
        self._leases: list[PortLease] = []
        self._zookeeper_port = self._lease() if plan.zookeeper else 0
        self.addresses = {node: self._address(node) for node in range(1, plan.brokers + 1)}
        self._processes: dict[int, JavaProcess] = {}
        self._zookeeper: JavaProcess | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="kclient-kafka-"))
        self.log_dir = plan.log_dir or self.folder / "logs"
        self._watchdog = Watchdog(self.folder)

    def open(self) -> None:
        """Start everything and wait until every broker lists every broker."""
        deadline = time.monotonic() + self.plan.start_timeout
        self._write_files()
        if self.plan.zookeeper:
            self._start_zookeeper(deadline)
        for node in self.addresses:
            self.start(node, deadline)
        self.await_ready(self.addresses, deadline)

    def close(self, *, keep_logs: bool) -> None:
        """Kill everything and remove the folder, or all of it but logs and settings."""
        if self._archive.missing and not keep_logs:
            self._write_archive()
        for process in self._all_processes():
            process.kill()
        self._watchdog.close()
        self._archive.discard()
        for lease in self._leases:
            lease.release()
        shutil.rmtree(self.folder / "data" if keep_logs else self.folder, ignore_errors=True)

    def start(self, node: int, deadline: float) -> None:
        """Start one broker's JVM, without waiting for it to serve."""
        if self.plan.zookeeper:
            # The session of a killed one lives on for seconds, and its id cannot be taken
            # twice: old versions give up at once when they find it.
            self._wait(lambda: not self._registered([node]), deadline, "to forget the node")
        # One JVM writes the archive of classes, and only if there is none yet.
        flags = self._archive.flags(may_write=node == 1) if self.plan.release.kraft else []
        command = java(
            self.plan.release,
            BROKER_CLASS,
            self._settings_file(node),
            self.plan.heap_mb,
            *write_log_settings(self.folder),
            *flags,
            *self.plan.jvm_flags,
        )
        self._processes[node] = JavaProcess(command, self.log_file(node), self._watchdog)

    def kill(self, node: int) -> None:
        """SIGKILL one broker."""
        self._processes[node].kill()

    def stop(self, node: int, timeout: float) -> None:
        """SIGTERM one broker and wait, up to ``timeout`` seconds, until it has ended."""
        self._processes[node].terminate(timeout)
        if node == 1:
            self._archive.publish()

    def running(self, node: int) -> bool:
        """Whether the broker's JVM runs."""
        process = self._processes.get(node)
        return process is not None and process.exit_code is None

    def pid(self, node: int) -> int:
        """Return the process id of a broker's JVM."""
        return self._processes[node].pid

    def log_file(self, node: int) -> Path:
        """Return where a broker's output goes."""
        return self.log_dir / f"node{node}.log"

    def await_ready(self, nodes: Collection[int], deadline: float) -> None:
        """Wait until each of ``nodes`` serves, and every broker that answers lists them."""
        self._wait(lambda: self._is_ready(nodes), deadline, "to serve", nodes)

    def _is_ready(self, nodes: Collection[int]) -> bool:
        if self.plan.release.number < (0, 9):
            return self._is_ready_0_8(nodes)
        wanted = frozenset(nodes)
        answers = self._answers(wanted | {node for node in self.addresses if self.running(node)})
        if any(answers[node] is None for node in nodes):
            return False
        return all(wanted <= listed for listed in answers.values() if listed is not None)

    def _is_ready_0_8(self, nodes: Collection[int]) -> bool:
        # Without topics, brokers of 0.8 list no brokers: what counts is ZooKeeper's list.
        if not self._registered(nodes):
            return False
        return all(listed is not None for listed in self._answers(nodes).values())

    def _answers(self, nodes: Collection[int]) -> dict[int, frozenset[int] | None]:
        return {node: listed_brokers(self.addresses[node].port) for node in nodes}

    def _registered(self, nodes: Collection[int]) -> bool:
        wanted = {f"/brokers/ids/{node}" for node in nodes}
        return wanted <= zookeeper_nodes(self._zookeeper_port)

    def _wait(
        self,
        done: Callable[[], bool],
        deadline: float,
        what: str,
        nodes: Collection[int] = (),
    ) -> None:
        while not done():
            watched = [self._processes[node] for node in nodes]
            watched += [self._zookeeper] if self._zookeeper else []
            for process in watched:
                if process.exit_code is not None:
                    raise self._failure(f"ended with code {process.exit_code}", process)
            if time.monotonic() > deadline:
                raise self._failure(f"took too long {what}", watched[0])
            time.sleep(_POLL_SECONDS)

    def _failure(self, what: str, process: JavaProcess) -> StartFailed:
        name = process.log_file.stem
        return StartFailed(
            f"Kafka {self.plan.release.version}: {name} {what}; its log is {process.log_file}, "
            f"which ends with:\n{process.last_lines()}",
            log_file=str(process.log_file),
        )

    def _all_processes(self) -> list[JavaProcess]:
        return [*self._processes.values(), *([self._zookeeper] if self._zookeeper else [])]

    def _write_archive(self) -> None:
        # Only an orderly end writes it. Whatever goes wrong here costs time, not correctness.
        if self.plan.release.kraft and self.running(1):
            with suppress(KafkaTimeout):
                self.stop(1, _ARCHIVE_SECONDS)

    def _lease(self) -> int:
        self._leases.append(lease_port())
        return self._leases[-1].port

    def _address(self, node: int) -> NodeAddress:
        return NodeAddress(
            node,
            self._lease(),
            0 if self.plan.zookeeper else self._lease(),
            {listener.name: self._lease() for listener in self.plan.listeners},
        )

    def _settings_file(self, node: int) -> Path:
        return self.folder / f"node{node}.properties"

    def _write_files(self) -> None:
        self.log_dir.mkdir(parents=True, exist_ok=True)
        (self.folder / "data").mkdir()
        for node, address in self.addresses.items():
            data = self.folder / "data" / f"node{node}"
            properties = common_properties(data, self.plan.brokers, self.plan.data_dirs)
            if self.plan.zookeeper:
                properties |= zookeeper_properties(address, self.plan.release, self._zookeeper_port)
            else:
                properties |= kraft_properties(address, list(self.addresses.values()))
                for each in properties["log.dirs"].split(","):
                    format_data(Path(each), self.plan.release.version, self.cluster_id, node)
            if self.plan.listeners:
                properties = with_listeners(properties, address, self.plan.listeners)
            write_properties(self._settings_file(node), properties | dict(self.plan.properties))

    def _start_zookeeper(self, deadline: float) -> None:
        config = self.folder / "zoo.cfg"
        write_properties(config, zoo_cfg(self.folder / "data" / "zookeeper", self._zookeeper_port))
        command = java(
            self.plan.release,
            ZOOKEEPER_CLASS,
            config,
            ZOOKEEPER_HEAP_MB,
            "-Dzookeeper.forceSync=no",  # nothing here must survive a power cut
            "-Dzookeeper.jmx.log4j.disable=true",  # looks for classes that reload4j dropped
            *write_log_settings(self.folder),
        )
        self._zookeeper = JavaProcess(command, self.log_dir / "zookeeper.log", self._watchdog)
        self._wait(lambda: zookeeper_answers(self._zookeeper_port), deadline, "to serve")
