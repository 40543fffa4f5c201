"""The options of ``Producer``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from kclient.config.client import ClientKeywords, ClientOptions
from kclient.config.option import Option

Serializer = Callable[[Any], "bytes | None"]
MIB = 1 << 20


def read_acks(text: str) -> int | str:
    """Read ``all`` or a number."""
    return text if text == "all" else int(text)


class ProducerKeywords(ClientKeywords, total=False):
    """Options of ``Producer``, by keyword; times end in ``_ms``, sizes are bytes."""

    acks: Annotated[
        int | str,
        Option(
            "all",
            choices=("all",),
            at_least=-1,
            at_most=1,
            read=read_acks,
            kafka=("request.required.acks",),
        ),
    ]
    enable_idempotence: Annotated[bool, Option(True)]
    linger_ms: Annotated[float, Option(5, at_least=0, kafka=("queue.buffering.max.ms",))]
    batch_size: Annotated[int, Option(64 << 10, at_least=1)]
    buffer_memory: Annotated[int, Option(32 * MIB, at_least=1)]
    max_block_ms: Annotated[int, Option(60_000, at_least=0)]
    max_request_size: Annotated[int, Option(MIB, at_least=1, kafka=("message.max.bytes",))]
    max_in_flight_requests_per_connection: Annotated[
        int, Option(5, at_least=1, kafka=("max.in.flight",))
    ]
    delivery_timeout_ms: Annotated[int, Option(120_000, at_least=1, kafka=("message.timeout.ms",))]
    compression_type: Annotated[str | None, Option(None, kafka=("compression.codec",))]
    partitioner: Annotated[str | Callable[..., int], Option("murmur2")]
    key_serializer: Annotated[Serializer | None, Option(None)]
    value_serializer: Annotated[Serializer | None, Option(None)]
    transactional_id: Annotated[str | None, Option(None)]
    transaction_timeout_ms: Annotated[int, Option(60_000, at_least=1)]


class ProducerOptions(ProducerKeywords, ClientOptions, total=False):
    """Every option of ``Producer``, resolved."""
