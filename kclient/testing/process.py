"""JVMs as child processes that never outlive the Python process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kclient.errors import KafkaTimeout
from kclient.testing import watchdog

# The launcher reports its own pid to the watchdog before it becomes the JVM, so there is no
# moment in which a JVM runs unwatched. Its stdin is the write end of the watchdog's pipe.
_LAUNCH = 'echo "$$" >&0 && exec "$@" </dev/null'
_KILL_SECONDS = 30.0


class Watchdog:
    """The watchdog process of one cluster; ``folder`` is in the command line of its JVMs."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", watchdog.__file__, str(folder), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,  # it must not hold a pipe that others wait on open
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the parent, which then ends us in order
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin

    @property
    def descriptor(self) -> int:
        """Where launchers report to."""
        return self._pipe.fileno()

    def forget(self, pid: int) -> None:
        """Say that ``pid`` has ended: the number may soon be another process's."""
        self._write(f"-{pid}\n")

    def close(self) -> None:
        """End the watchdog: all JVMs have ended."""
        self._write("done\n")
        try:
            self._pipe.close()
            self._process.wait(_KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_KILL_SECONDS)

    def _write(self, line: str) -> None:
        # A broken pipe: someone killed the watchdog, and there is nobody left to tell.
        with suppress(BrokenPipeError):
            os.write(self.descriptor, line.encode())


class JavaProcess:
    """One running JVM, its output appended to ``log_file``."""

    def __init__(self, command: Sequence[str], log_file: Path, guard: Watchdog) -> None:
        self.log_file = log_file
        self._guard = guard
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                ["/bin/sh", "-c", _LAUNCH, "launch", *command],
                stdin=guard.descriptor,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The JVM's process id: the launcher became the JVM."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended, minus the signal's number if by a signal; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """End it with SIGKILL, and wait until it is gone. Does nothing if it has ended."""
        self._end(signal.SIGKILL, _KILL_SECONDS)

    def terminate(self, timeout: float) -> None:
        """End it with SIGTERM. After ``timeout`` seconds it is killed and KafkaTimeout raised."""
        try:
            self._end(signal.SIGTERM, timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise KafkaTimeout(
                f"the JVM did not end within {timeout:g} s of SIGTERM and was killed; "
                f"its log is {self.log_file}"
            ) from None

    def last_lines(self, count: int = 25) -> str:
        """Return the end of its log."""
        lines = self.log_file.read_text(errors="replace").splitlines()
        return "\n".join(lines[-count:])

    def _end(self, signum: signal.Signals, timeout: float) -> None:
        self._process.send_signal(signum)
        self._process.wait(timeout)
        self._guard.forget(self.pid)
