"""What can go wrong before a local broker answers."""

from __future__ import annotations

from kclient.errors import KafkaError


class MissingTool(KafkaError):
    """Java or Maven is not installed, or too old. The message says what to install."""


class FetchFailed(KafkaError):
    """Maven could not fetch the jars of a Kafka version. The message ends with its output."""


class StartFailed(KafkaError):
    """A local broker did not come up. The message names its log and shows the last lines."""
