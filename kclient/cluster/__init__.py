"""The cluster as the client sees it: metadata, routing, and the one retry loop."""

from __future__ import annotations

from kclient.cluster.call import Call
from kclient.cluster.metadata import Metadata
from kclient.cluster.router import Router
from kclient.cluster.target import ANY, CONTROLLER, Coordinator, Leader, Node, Target
from kclient.cluster.view import ClusterView, TopicView

__all__ = [
    "ANY",
    "CONTROLLER",
    "Call",
    "ClusterView",
    "Coordinator",
    "Leader",
    "Metadata",
    "Node",
    "Router",
    "Target",
    "TopicView",
]
