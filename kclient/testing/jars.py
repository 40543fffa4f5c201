"""Kafka's published jars, fetched once by Maven into a cache folder.

``python -m kclient.testing.jars 4.3.1 3.9.1`` fetches ahead of time.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from kclient.errors import KafkaError
from kclient.testing.cache import build_once
from kclient.testing.errors import FetchFailed
from kclient.testing.releases import DEFAULT_VERSION, find_release
from kclient.testing.toolchain import java_command, maven_command

FETCH_TIMEOUT = 600.0
"""Seconds to fetch one version, and to wait for another process that fetches."""


def kafka_libs(version: str = DEFAULT_VERSION) -> Path:
    """Return the folder of all jars needed to run Kafka ``version``, fetching if need be.

    It lies in ``$KCLIENT_CACHE``, else in ``~/.cache/kclient``. Processes that ask at the
    same time wait for one fetch. Raises MissingTool without Java or Maven, FetchFailed
    when Maven fails, KafkaTimeout when another process takes too long, ConfigError for a
    version that has no jars.
    """
    release = find_release(version)
    extra = (one.format(version=release.version) for one in release.extra)
    return fetch_artifacts(f"kafka-{version}", [release.artifact, *extra], release.pins)


def fetch_artifacts(
    name: str, wanted: Sequence[str], pins: Sequence[str] = (), *, alone: bool = False
) -> Path:
    """Return a folder of these artifacts and all they need, or of these ``alone``.

    Artifacts are ``group:name:version``; ``pins`` hold versions of what they need fixed, and
    the folder's name begins with ``name``. Raises as ``kafka_libs``.
    """
    pom = _pom(wanted, pins, alone=alone)
    # The pom's digest is in the name, so that a change of the table fetches anew.
    folder = f"{name}-{hashlib.sha256(pom.encode()).hexdigest()[:8]}"
    return build_once(folder, lambda path: _fetch(pom, path), timeout=FETCH_TIMEOUT)


def client_jar(version: str = DEFAULT_VERSION) -> Path:
    """Return ``kafka-clients-<version>.jar``: Java's client, with the message schemas inside."""
    jar = kafka_libs(version) / f"kafka-clients-{version}.jar"
    if not jar.is_file():
        raise FetchFailed(f"Kafka {version} has no Java client jar (it came with 0.8.2)")
    return jar


def classpath(version: str = DEFAULT_VERSION) -> str:
    """Return a Java class path of all jars of that version."""
    return str(kafka_libs(version) / "*")


def _fetch(pom: str, folder: Path) -> None:
    maven = maven_command()
    java_command()  # Maven's own complaint about a missing Java is less clear than ours
    with tempfile.TemporaryDirectory() as temp:
        pom_file = Path(temp, "pom.xml")
        pom_file.write_text(pom)
        command = [maven, "-B", "-q", "-f", str(pom_file), "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
        _run_maven(command)
    if not any(folder.glob("*.jar")):
        raise FetchFailed(f"Maven fetched nothing, with: {' '.join(command)}")


def _run_maven(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=FETCH_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FetchFailed(f"Maven took more than {FETCH_TIMEOUT:.0f} s to fetch Kafka") from None
    if done.returncode:
        # The first lines name the artifact; what follows is advice about Maven's switches.
        shown = "\n".join(done.stdout.strip().splitlines()[:5])
        raise FetchFailed(f"Maven could not fetch the jars of Kafka:\n{shown}")


def _pom(wanted: Sequence[str], pins: Sequence[str], *, alone: bool) -> str:
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0">'
        "<modelVersion>4.0.0</modelVersion>"
        "<groupId>kclient</groupId><artifactId>broker</artifactId><version>1</version>"
        f"<dependencyManagement>{_dependencies(pins)}</dependencyManagement>"
        f"{_dependencies(wanted, _ALONE if alone else '')}</project>"
    )


_ALONE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


def _dependencies(coordinates: Sequence[str], more: str = "") -> str:
    items = ""
    for coordinate in coordinates:
        group, artifact, version = coordinate.split(":")
        items += (
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version>{more}</dependency>"
        )
    return f"<dependencies>{items}</dependencies>"


def main(versions: Sequence[str]) -> int:
    """Fetch each version, a line of progress each. Returns the exit code."""
    for version in versions or [DEFAULT_VERSION]:
        began = time.monotonic()
        try:
            folder = kafka_libs(version)
        except KafkaError as error:
            sys.stderr.write(f"kafka {version}: {error}\n")
            return 1
        count = len(list(folder.iterdir()))
        took = time.monotonic() - began
        sys.stdout.write(f"kafka {version}: {count} jars in {folder} ({took:.1f} s)\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
