"""Slow errands of the engine, each in a thread of its own, so that no broker delays another.

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
        # By key: the result, until it is collected. One engine starts and collects, so that
        # single steps on the dict are all the locking there is to do.
        self._results: dict[Hashable, object] = {}

    def start(self, key: Hashable, work: Callable[[], object]) -> None:
        """Begin an errand, unless one of this key is under way."""
        if key in self._results:
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

    def collect(self) -> Iterator[tuple[Hashable, object]]:
        """Keys and results of errands that have ended; an error is a result.

        Each stays until the next is asked for: an interrupt repeats it rather than lose it.
        """
        for key, result in list(self._results.items()):
            if result is not _UNDER_WAY:
                yield key, result
                del self._results[key]

    def _run(self, key: Hashable, work: Callable[[], object]) -> None:
        try:
            result: object = work()
        except Exception as error:
            result = error if isinstance(error, KafkaError) else _wrapped(error)
        self._results[key] = result
        self._wake()


def _wrapped(error: Exception) -> KafkaError:
    """A bug of ours must reach the caller too."""
    wrapped = KafkaError(f"unexpected {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
