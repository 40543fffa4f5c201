"""The programs that must be on the machine: Java, and Maven to fetch Kafka."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from functools import lru_cache

from kclient.testing.errors import MissingTool

JAVA_MAJOR = 17
_INSTALL = (
    f"kclient.testing needs Java {JAVA_MAJOR} and Maven to fetch and run Kafka: on Debian, "
    f"apt-get install openjdk-{JAVA_MAJOR}-jre-headless maven"
)


def maven_command() -> str:
    """Return the path of ``mvn``. Raises MissingTool when there is none."""
    return _require("mvn")


def java_command() -> str:
    """Return the ``java`` to run: that of ``$JAVA_HOME``, else the one on the PATH.

    Raises MissingTool when there is none, or it is older than Java 17.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else None
    java = java or _require("java")
    shown = _version_text(java)
    found = re.search(r'version "(\d+)', shown)
    if not found or int(found[1]) < JAVA_MAJOR:
        first_line = shown.strip().partition("\n")[0]
        raise MissingTool(f"{_INSTALL} ({java} says: {first_line or 'nothing'})")
    return java


def java_digest() -> str:
    """Return eight characters that tell this very build of Java from others."""
    java = java_command()
    return hashlib.sha256(f"{java}\n{_version_text(java)}".encode()).hexdigest()[:8]


@lru_cache(maxsize=4)
def _version_text(java: str) -> str:
    done = subprocess.run(  # noqa: S603
        [java, "-version"], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stderr


def _require(tool: str) -> str:
    path = shutil.which(tool)
    if path is None:
        raise MissingTool(f"{_INSTALL} (`{tool}` was not found)")
    return path
