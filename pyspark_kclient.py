"""By this module Spark finds ``format("kclient")`` without being told; see ``kclient.spark``."""

from __future__ import annotations

from kclient.spark.source import KafkaSource as DefaultSource

__all__ = ["DefaultSource"]
