"""Kafka 0.7, the first Kafka that many ran: its wire format, and a small client to read it out.

``codec`` turns bytes into values and back; ``Client`` talks to one broker. Offsets are byte
positions in a partition's log, messages have no key, and nothing is acknowledged.

    with Client("old-broker", 9092) as client:
        for message in client.consume("orders", 0):
            print(message.offset, message.payload)
"""

from kclient.kafka07.client import Client
from kclient.kafka07.codec import (
    EARLIEST,
    LATEST,
    Fetch,
    FetchSizeTooSmall,
    Kafka07Error,
    Kafka07OffsetOutOfRange,
    Message,
    MessageSet,
    Produce,
)

__all__ = [
    "EARLIEST",
    "LATEST",
    "Client",
    "Fetch",
    "FetchSizeTooSmall",
    "Kafka07Error",
    "Kafka07OffsetOutOfRange",
    "Message",
    "MessageSet",
    "Produce",
]
