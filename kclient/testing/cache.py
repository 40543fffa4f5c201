"""A folder of things made once and shared by every process of the user: jars, formats, archives."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kclient.errors import KafkaTimeout


def cache_folder() -> Path:
    """Return ``$KCLIENT_CACHE``, else ``~/.cache/kclient``; made if it does not exist."""
    named = os.environ.get("KCLIENT_CACHE")
    folder = Path(named).absolute() if named else Path.home() / ".cache" / "kclient"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def build_once(name: str, build: Callable[[Path], None], *, timeout: float) -> Path:
    """Return the cached folder ``name``; ``build(empty folder)`` fills it if it is not there.

    Half-built folders are never seen: the work is done beside and renamed. Processes that
    ask at the same time wait up to ``timeout`` seconds for the one that builds, then
    raise KafkaTimeout.
    """
    target = cache_folder() / name
    if not target.is_dir():
        with _lock(target.parent / "build.lock", timeout):
            if not target.is_dir():
                _build(target, build)
    return target


def _build(target: Path, build: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as temp:
        made = Path(temp, target.name)
        made.mkdir()
        build(made)
        made.rename(target)


@contextmanager
def _lock(path: Path, timeout: float) -> Iterator[None]:
    # One lock for all: two Mavens that write their own repository at once can spoil it.
    deadline = time.monotonic() + timeout
    with path.open("w") as file:
        while not _locked(file.fileno()):
            if time.monotonic() > deadline:
                raise KafkaTimeout(f"another process has held {path} for {timeout:.0f} s")
            time.sleep(0.1)
        yield  # closing the file gives the lock back, also when the process dies


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
