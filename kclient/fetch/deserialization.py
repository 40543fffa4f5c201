"""Keys and values as a user's functions make them from bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kclient.config import ConsumerOptions
from kclient.errors import SerializationError
from kclient.types import Record


class Deserializer:
    """Applies ``key_deserializer`` and ``value_deserializer``; null stays None."""

    def __init__(self, options: ConsumerOptions) -> None:
        self._key: Callable[[bytes], Any] | None = options["key_deserializer"]
        self._value: Callable[[bytes], Any] | None = options["value_deserializer"]
        self.is_needed = self._key is not None or self._value is not None

    def apply(self, record: Record) -> Record:
        """The record with its key and value made.

        Raises SerializationError with ``topic``, ``partition`` and ``offset``.
        """
        key = self._made(self._key, record.key, "key", record)
        value = self._made(self._value, record.value, "value", record)
        return record._replace(key=key, value=value)

    def _made(
        self, function: Callable[[bytes], Any] | None, data: bytes | None, what: str, record: Record
    ) -> Any:
        if function is None or data is None:
            return data
        try:
            return function(data)
        except Exception as error:
            where = f"{record.topic}[{record.partition}] at offset {record.offset}"
            raise SerializationError(
                f"the {what}_deserializer failed for {where}: {error!r}; to skip the record, "
                f"seek to offset {record.offset + 1}",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
            ) from error
