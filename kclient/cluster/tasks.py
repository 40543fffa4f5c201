"""Slow errands of an engine, each in a thread of its own, so that no broker delays another.

Connecting to a broker that does not answer takes seconds, in which the others' batches go on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator

from kclient.errors import KafkaError

_UNDER_WAY = object()


class Tasks:
    """Errands by key; at most one of a key is under way."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()  # guards the two below
        self._results: dict[Hashable, object] = {}
        """By key, until they are collected: one step on a dict is what no interrupt divides."""
        self._discard: Callable[[object], None] | None = None

    def start(self, key: Hashable, work: Callable[[], object]) -> None:
        """Begin an errand, unless one of this key is under way."""
        if key in self._results or self._discard is not None:
            return
        name = f"kclient-{key[0] if isinstance(key, tuple) else key}"
        thread = threading.Thread(target=self._run, args=(key, work), name=name, daemon=True)
        try:
            self._results[key] = _UNDER_WAY
            thread.start()
        except RuntimeError:  # no more threads, say because the interpreter ends
            self._run(key, work)
        except BaseException:
            if thread.ident is None:
                self._results.pop(key, None)
            raise

    def is_running(self, key: Hashable) -> bool:
        """Whether an errand of this key is under way, or its result not collected."""
        return key in self._results

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._results

    def collect(self) -> Iterator[tuple[Hashable, object]]:
        """Keys and results of errands that have ended; an error is a result.

        Each stays until the next is asked for: an interrupt repeats it rather than lose it.
        """
        for key, result in list(self._results.items()):
            if result is not _UNDER_WAY:
                yield key, result
                del self._results[key]

    def close(self, discard: Callable[[object], None]) -> list[tuple[Hashable, object]]:
        """Start no more; return what has ended, and give ``discard`` what ends later."""
        with self._lock:
            self._discard = discard
        return list(self.collect())

    def _run(self, key: Hashable, work: Callable[[], object]) -> None:
        try:
            result: object = work()
        except Exception as error:
            result = error if isinstance(error, KafkaError) else _wrapped(error)
        with self._lock:
            discard = self._discard
            if discard is None:
                self._results[key] = result
        if discard is not None:
            discard(result)
        self._wake()


def _wrapped(error: Exception) -> KafkaError:
    """A bug of ours must reach the caller too."""
    wrapped = KafkaError(f"unexpected {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
