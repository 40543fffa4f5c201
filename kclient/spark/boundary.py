"""Where our errors cross into Spark: the first line of Spark's exception says what is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from functools import wraps
from typing import Any, TypeVar

from kclient.errors import KafkaError

F = TypeVar("F", bound=Callable[..., Any])


def told_plainly(method: F) -> F:
    """Have Spark show a KafkaError of ``method`` by its message, without a traceback before it.

    For methods that Spark calls in its Python workers, whose process ends with the error: so
    what is set here hides nobody else's traceback.
    """

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except KafkaError:
            _hide_traceback()
            raise

    return call  # type: ignore[return-value]


def told_plainly_each(batches: Generator[Any, None, None]) -> Generator[Any, None, None]:
    """The same for what an iterator raises while Spark takes from it."""
    try:
        yield from batches
    except KafkaError:
        _hide_traceback()
        raise


def _hide_traceback() -> None:
    os.environ["SPARK_HIDE_TRACEBACK"] = "1"
