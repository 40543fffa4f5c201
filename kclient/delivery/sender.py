"""The background thread of a producer: carries the engine while records of ``submit`` wait."""

from __future__ import annotations

import threading
from collections.abc import Callable

from kclient.deadline import Deadline
from kclient.delivery.accumulator import Accumulator
from kclient.delivery.carrier import Carrier
from kclient.delivery.engine import Engine
from kclient.errors import ClientClosedError, KafkaError, KafkaTimeout

_TURN_SECONDS = 3600.0


class Sender:
    """Started by the first ``nudge``, ended by ``stop``.

    When it dies of an error, that is kept as ``death``, and no record waits for it in vain.
    """

    def __init__(self, carrier: Carrier, engine: Engine, accumulator: Accumulator) -> None:
        self.death: KafkaError | None = None
        self.on_death: Callable[[], None] = lambda: None
        self.owner: Callable[[], object] = lambda: None
        """Gives the producer, which must not vanish while its records wait."""
        self.is_idle = True
        """Whether it waits for work; after an interrupt there may be some it was not told of."""
        self._kept: object = None
        self._carrier = carrier
        self._engine = engine
        self._accumulator = accumulator
        self._has_work = threading.Event()
        self._is_stopping = False
        self._at_end: Callable[[], None] | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()  # guards the start

    def nudge(self) -> None:
        """There is work that nobody may be carrying."""
        if self._thread is None:
            self._start()
        if self._kept is None:
            self._kept = self.owner()
        if not self._has_work.is_set():
            self._has_work.set()
        self._engine.wake_if_waiting()

    def stop(self, seconds: float) -> None:
        """End the thread, and wait so long at most until it has."""
        self._is_stopping = True
        self._has_work.set()
        self._engine.wake()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)

    def abandon(self, at_end: Callable[[], None]) -> None:
        """Nobody is left to close the producer: end the thread, then do ``at_end``."""
        self._at_end = at_end
        self.stop(0.0)
        if self._thread is None or not self._thread.is_alive():
            at_end()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._is_stopping:
                thread = threading.Thread(target=self._run, name="kclient-sender", daemon=True)
                thread.start()
                self._thread = thread

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._has_work.wait()
                self.is_idle = False
                self._has_work.clear()
                self._carry()
                self.is_idle = True
                if not self._has_work.is_set():
                    self._kept = None
        except ClientClosedError:
            pass
        except BaseException as error:
            self._die(error)
        if self._at_end is not None:
            self._at_end()

    def _carry(self) -> None:
        try:
            self._carrier.until(self._is_idle, Deadline(_TURN_SECONDS), "sending")
        except KafkaTimeout:
            self._has_work.set()

    def _is_idle(self) -> bool:
        return self._is_stopping or not self._accumulator.unsettled

    def _die(self, error: BaseException) -> None:
        death = KafkaError(f"the producer's sender thread died: {error!r}; make a new producer")
        death.__cause__ = error
        self.death = death
        self.on_death()
        self._engine.settlement.fail_queued(death)
        self._engine.tell()
