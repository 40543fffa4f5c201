"""Where an answer holds its error codes and its throttle time."""

from __future__ import annotations

from collections.abc import Iterator

from kclient.protocol import Message, Struct
from kclient.types import TopicPartition

_CODE_FIELDS = ("error_code", "partition_error_code")
_INDEX_FIELDS = ("partition_index", "index", "partition")
_NAME_FIELDS = ("name", "topic")
_PER_TOPIC = ("MetadataResponseTopic",)  # the partitions' codes below mean something else


def set_error(message: Message, code: int, partition: TopicPartition | None, version: int) -> None:
    """Put ``code`` into every innermost place for one, or into that of one partition.

    Answers that name topics by id only are matched by the partition's number.
    """
    for struct, name, topic in _innermost(message, version, ""):
        if partition is None or (topic in ("", partition.topic) and _index(struct) == partition[1]):
            setattr(struct, name, code)


def set_throttle(message: Message, milliseconds: int) -> None:
    """Say ``milliseconds`` in an answer; those without the field cannot."""
    if "throttle_time_ms" in message.FIELDS:
        message.throttle_time_ms = milliseconds  # type: ignore[attr-defined]


def _innermost(struct: Struct, version: int, topic: str) -> Iterator[tuple[Struct, str, str]]:
    topic = next((getattr(struct, name) for name in _NAME_FIELDS if name in struct.FIELDS), topic)
    below: list[tuple[Struct, str, str]] = []
    if type(struct).__name__ not in _PER_TOPIC:
        for name, field in struct.FIELDS.items():
            if field.kind == "array" and field.struct is not None and field.exists_in(version):
                for item in getattr(struct, name) or ():
                    below += _innermost(item, version, topic or "")
    if below:
        yield from below
        return
    for name in _CODE_FIELDS:
        if name in struct.FIELDS and struct.FIELDS[name].exists_in(version):
            yield struct, name, topic or ""


def _index(struct: Struct) -> int | None:
    return next((getattr(struct, name) for name in _INDEX_FIELDS if name in struct.FIELDS), None)
