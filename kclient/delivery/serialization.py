"""Keys and values to bytes, by the user's serializers or as they are."""

from __future__ import annotations

from typing import Any

from kclient.config import ProducerOptions
from kclient.config.producer import Serializer
from kclient.errors import SerializationError


class Serialization:
    """The serializers of one producer. None, which deletes a key, is never serialized."""

    def __init__(self, options: ProducerOptions) -> None:
        self._of_keys = options["key_serializer"]
        self._of_values = options["value_serializer"]
        self.is_plain = self._of_keys is None and self._of_values is None
        """Whether keys and values are bytes already."""

    def key(self, data: Any, topic: str) -> bytes | None:
        """A key as bytes. Raises SerializationError."""
        return _bytes(data, self._of_keys, "key", topic)

    def value(self, data: Any, topic: str) -> bytes | None:
        """A value as bytes. Raises SerializationError."""
        return _bytes(data, self._of_values, "value", topic)


def _bytes(data: Any, serializer: Serializer | None, what: str, topic: str) -> bytes | None:
    if data is None:
        return None
    if serializer is None:
        if isinstance(data, (bytes, bytearray, memoryview)):
            return bytes(data)
        raise SerializationError(
            f"a {what} for topic {topic!r} is {type(data).__name__}, not bytes: encode it, or "
            f"give the producer a {what}_serializer",
            topic=topic,
        )
    try:
        made = serializer(data)
    except Exception as error:
        raise SerializationError(
            f"the {what}_serializer failed for topic {topic!r}: {error!r}", topic=topic
        ) from error
    if made is None or isinstance(made, bytes):
        return made
    raise SerializationError(
        f"the {what}_serializer returned {type(made).__name__}, not bytes", topic=topic
    )
