"""Every option once: its name, type, default, dotted names and bounds.

A TypedDict declares the options of a client; editors and mypy know them as keyword
arguments, and the resolved values are the same TypedDict, so reading one is typed too.
"""

from __future__ import annotations

from kclient.config.client import AdminOptions, ClientOptions
from kclient.config.consumer import ConsumerOptions
from kclient.config.option import Resolved, declared, resolve
from kclient.config.producer import ProducerOptions
from kclient.config.properties import from_properties
from kclient.config.servers import parse_servers

__all__ = [
    "AdminOptions",
    "ClientOptions",
    "ConsumerOptions",
    "ProducerOptions",
    "Resolved",
    "declared",
    "from_properties",
    "parse_servers",
    "resolve",
]
