"""The background thread of a producer: carries the engine while records of ``submit`` wait."""

from __future__ import annotations

import threading

from kclient.deadline import Deadline
from kclient.delivery.accumulator import Accumulator
from kclient.delivery.carrier import Carrier
from kclient.delivery.engine import Engine
from kclient.errors import KafkaError, KafkaTimeout

_TURN_SECONDS = 3600.0


class Sender:
    """Started by the first ``nudge``, ended by ``stop``. Its death is raised by ``check``."""

    def __init__(self, carrier: Carrier, engine: Engine, accumulator: Accumulator) -> None:
        self._carrier = carrier
        self._engine = engine
        self._accumulator = accumulator
        self._has_work = threading.Event()
        self._is_stopping = False
        self._thread: threading.Thread | None = None
        self._death: BaseException | None = None
        self._lock = threading.Lock()  # guards the start

    def nudge(self) -> None:
        """There is work that nobody may be carrying."""
        if self._thread is None:
            self._start()
        if not self._has_work.is_set():
            self._has_work.set()
        self._engine.wake_if_waiting()

    def check(self) -> None:
        """Raise what ended the thread, if anything did."""
        if self._death is not None:
            error = KafkaError(f"the producer's sender thread died: {self._death!r}")
            raise error from self._death

    def stop(self) -> None:
        """End the thread, and wait until it has."""
        self._is_stopping = True
        self._has_work.set()
        self._engine.wake()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5.0)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._is_stopping:
                self._thread = threading.Thread(
                    target=self._run, name="kclient-sender", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._has_work.wait()
                self._has_work.clear()
                self._carry()
        except BaseException as error:
            self._death = error

    def _carry(self) -> None:
        try:
            self._carrier.until(self._is_idle, Deadline(_TURN_SECONDS), "sending")
        except KafkaTimeout:
            self._has_work.set()

    def _is_idle(self) -> bool:
        return self._is_stopping or not self._accumulator.unsettled
