"""What ``submit`` returns: a Future that costs next to nothing until somebody looks at it."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any

from kclient.errors import KafkaError
from kclient.types import RecordMetadata

if TYPE_CHECKING:
    from kclient.delivery.batch import Batch

_log = logging.getLogger(__name__)


class SendFuture(Future[RecordMetadata]):
    """The outcome of one record; a ``concurrent.futures.Future`` in every respect.

    An ordinary Future has a lock and lists of its own, which would cost more than encoding
    the record. This one keeps its batch and its place in it; the state that the inherited
    methods look at is the batch's, and so is the lock.
    """

    def __init__(self, batch: Batch, index: int, timestamp: int) -> None:
        # Future.__init__ is not called: each field it would set is a property here.
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    if not TYPE_CHECKING:  # the names and types of these are Future's own affair

        @property
        def _condition(self) -> Any:
            return self._batch.condition

        @property
        def _state(self) -> str:
            return "FINISHED" if self._batch.is_done else "RUNNING"

        @property
        def _result(self) -> RecordMetadata | None:
            outcome = self._batch.outcome(self._index, self._timestamp)
            return None if isinstance(outcome, KafkaError) else outcome

        @property
        def _exception(self) -> KafkaError | None:
            outcome = self._batch.outcome(self._index, self._timestamp)
            return self._own(outcome) if isinstance(outcome, KafkaError) else None

        @property
        def _waiters(self) -> list[Any]:
            return self._lasting("waiters")

        @property
        def _done_callbacks(self) -> list[Callable[[Any], object]]:
            return self._lasting("callbacks")

    def __repr__(self) -> str:
        tp = self._batch.tp
        state = "finished" if self._batch.is_done else "pending"
        return f"<SendFuture of a record for {tp.topic}[{tp.partition}], {state}>"

    def _own(self, error: KafkaError) -> KafkaError:
        """A copy of the batch's error, for each raise adds to its traceback; noted as seen."""
        if "_seen" not in self.__dict__:
            self._seen = copy.copy(error)
            self._seen.__cause__ = error.__cause__
            self._batch.observed += 1
        return self._seen

    def _lasting(self, name: str) -> list[Any]:
        """A list that is made at first use, and then the batch knows of this future."""
        lists: dict[str, list[Any]] = self.__dict__.setdefault("_lists", {})
        if not lists and not self._batch.is_done:
            self._batch.interested.append(self)
        return lists.setdefault(name, [])

    def cancel(self) -> bool:
        """A record cannot be called back: always False."""
        return False

    def set_running_or_notify_cancel(self) -> bool:
        """Only an executor may call this on its futures: raises InvalidStateError."""
        raise InvalidStateError(f"{self!r} is the producer's to finish")

    def set_result(self, result: RecordMetadata) -> None:
        """Only the producer tells how a record fared: raises InvalidStateError."""
        raise InvalidStateError(f"{self!r} is the producer's to finish")

    def set_exception(self, exception: BaseException | None) -> None:
        """Only the producer tells how a record fared: raises InvalidStateError."""
        raise InvalidStateError(f"{self!r} is the producer's to finish")

    def tell(self) -> None:
        """Wake those who wait in ``concurrent.futures.wait``, and run callbacks, each once."""
        with self._condition:
            waiters = [] if "_is_told" in self.__dict__ else self._waiters
            self._is_told = True
            failed = isinstance(self._batch.outcome(self._index, self._timestamp), KafkaError)
            for waiter in waiters:
                if failed:
                    waiter.add_exception(self)
                else:
                    waiter.add_result(self)
        callbacks = self._lasting("callbacks")
        while callbacks:
            _run(callbacks.pop(0), self)


def _run(callback: Callable[[SendFuture], object], future: SendFuture) -> None:
    """Run a callback; what it raises is logged, as every Future does."""
    try:
        callback(future)
    except Exception:
        _log.exception("a callback of %r failed", future)
