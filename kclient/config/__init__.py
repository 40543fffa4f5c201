"""Every option once: its name, type, default, dotted names and bounds.

A TypedDict declares the options of a client; editors and mypy know them as keyword
arguments (``...Keywords``), and the resolved values are a TypedDict too (``...Options``), so
reading one is typed as well.
"""

from __future__ import annotations

from kclient.config.client import (
    AdminKeywords,
    AdminOptions,
    ClientKeywords,
    ClientOptions,
)
from kclient.config.consumer import ConsumerKeywords, ConsumerOptions
from kclient.config.option import Resolved, declared, resolve
from kclient.config.producer import ProducerKeywords, ProducerOptions
from kclient.config.properties import from_properties
from kclient.config.servers import parse_servers

__all__ = [
    "AdminKeywords",
    "AdminOptions",
    "ClientKeywords",
    "ClientOptions",
    "ConsumerKeywords",
    "ConsumerOptions",
    "ProducerKeywords",
    "ProducerOptions",
    "Resolved",
    "declared",
    "from_properties",
    "parse_servers",
    "resolve",
]
