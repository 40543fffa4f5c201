"""How a broker's JVM is started, and how later ones start in half the time.

Most of a broker's start is loading some 6,000 classes. The JVM can keep them ready in an
archive (class data sharing): 3.1 s became 1.7 s for Kafka 4.3.1 on 2 cores. The first
cluster of a version writes it when it ends; those after it use it.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from kclient.testing.cache import cache_folder
from kclient.testing.jars import classpath, kafka_libs
from kclient.testing.releases import Release
from kclient.testing.toolchain import java_command, java_digest

BROKER_CLASS = "kafka.Kafka"
ZOOKEEPER_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
ZOOKEEPER_HEAP_MB = 128


def java(release: Release, main: str, config: Path, heap_mb: int, *flags: str) -> list[str]:
    """Return the command that runs class ``main`` of a Kafka version."""
    command = [java_command(), f"-Xmx{heap_mb}m", *release.jvm_flags, *flags]
    return [*command, "-cp", classpath(release.version), main, str(config)]


class ClassArchive:
    """The archive of a version's classes: used if it is there, else written by one JVM."""

    def __init__(self, release: Release) -> None:
        # An archive fits the very build of Java that wrote it.
        name = f"{kafka_libs(release.version).name}.{java_digest()}.jsa"
        self._path = cache_folder() / name
        self._new = self._path.with_name(f".{uuid.uuid4().hex}.jsa")
        self.missing = not self._path.is_file()

    def flags(self, *, may_write: bool) -> list[str]:
        """Return the flags for a JVM; of those that run at once, one ``may_write``."""
        quiet = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        if not self.missing:
            return [f"-XX:SharedArchiveFile={self._path}", *quiet]
        return [f"-XX:ArchiveClassesAtExit={self._new}", *quiet] if may_write else []

    def publish(self) -> None:
        """Keep what a JVM that has ended in order wrote."""
        if self._new.is_file():
            self._new.rename(self._path)
            self.missing = False

    def discard(self) -> None:
        """Drop what a JVM that was killed may have left."""
        self._new.unlink(missing_ok=True)
