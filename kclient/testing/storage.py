"""Formatted KRaft data folders, without a JVM start for each.

Kafka's own tool formats a folder once per version. A node gets a copy of it, in which only
the identity is its own: cluster, node and directory id in ``meta.properties``.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from pathlib import Path

from kclient.testing.cache import build_once
from kclient.testing.errors import StartFailed
from kclient.testing.jars import classpath, kafka_libs
from kclient.testing.settings import NodeAddress, kraft_properties, write_properties
from kclient.testing.toolchain import java_command

_FORMAT_TIMEOUT = 120.0


def new_id() -> str:
    """Return a random id as Kafka writes them: 22 characters of URL-safe base64."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # Kafka's tools would take it for an option
            return text


def format_data(data: Path, version: str, cluster_id: str, node: int) -> None:
    """Make ``data`` the formatted, empty data folder of a node. Raises StartFailed."""
    template = build_once(
        f"{kafka_libs(version).name}.formatted",
        lambda folder: _run_format(folder, version),
        timeout=_FORMAT_TIMEOUT,
    )
    shutil.copytree(template, data)
    identity = {"cluster.id": cluster_id, "node.id": str(node), "directory.id": new_id()}
    meta = data / "meta.properties"
    meta.write_text(_with_identity(meta.read_text(), identity))


def _with_identity(text: str, identity: dict[str, str]) -> str:
    pairs = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    # Versions before 3.7 have no directory.id: only what the tool wrote is replaced.
    pairs.update({key: value for key, value in identity.items() if key in pairs})
    return "".join(f"{key}={value}\n" for key, value in pairs.items())


def _run_format(folder: Path, version: str) -> None:
    address = NodeAddress(node=1, port=9092, controller_port=9093)
    config = folder.parent / "server.properties"
    write_properties(config, kraft_properties(address, [address]) | {"log.dirs": str(folder)})
    tool = [java_command(), "-cp", classpath(version), "kafka.tools.StorageTool"]
    done = subprocess.run(  # noqa: S603
        [*tool, "format", "-t", new_id(), "-c", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_FORMAT_TIMEOUT,
        check=False,
    )
    if done.returncode or not (folder / "meta.properties").is_file():
        raise StartFailed(f"Kafka {version} could not format its data folder:\n{done.stdout}")
