"""Ends the JVMs of a cluster when the Python process that started them is gone.

Run as a script of its own: ``watchdog.py <folder> <parent pid>``. On stdin come lines, from
the parent and from each JVM's launcher: ``<pid>`` watch it, ``-<pid>`` it has ended,
``done`` nothing is left to do. The end of stdin, or another parent, means that the parent
died, by SIGKILL even: then the JVMs are killed and ``<folder>/data`` removed, logs stay.

A pipe tells of the death of a process; PR_SET_PDEATHSIG would tell of that of a thread.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

_POLL_SECONDS = 1.0


def main(folder: str, parent: int) -> None:
    """Watch until the parent is done or dead."""
    pids: set[int] = set()
    pending = b""
    while os.getppid() == parent:
        # The timeout is for a parent that forked: its children hold the pipe open after it.
        if not select.select([0], [], [], _POLL_SECONDS)[0]:
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            break
        *lines, pending = (pending + chunk).split(b"\n")
        if b"done" in lines:
            return
        _note(pids, lines)
    _note(pids, _drain(pending))
    for pid in pids:
        if folder in _command_line(pid):  # a number that was given to another process is not ours
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(Path(folder, "data"), ignore_errors=True)


def _note(pids: set[int], lines: list[bytes]) -> None:
    for line in filter(None, lines):
        number = int(line)
        if number > 0:
            pids.add(number)
        else:
            pids.discard(-number)


def _drain(pending: bytes) -> list[bytes]:
    """Read what launchers wrote while the parent died."""
    while select.select([0], [], [], _POLL_SECONDS)[0] and (chunk := os.read(0, 65536)):
        pending += chunk
    return pending.split(b"\n")


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        pass
    if Path("/proc/self").exists():
        return ""
    shown = subprocess.run(  # noqa: S603
        ["ps", "-o", "args=", "-p", str(pid)],  # noqa: S607
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    return shown.stdout


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
