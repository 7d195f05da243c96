"""One connected cluster per process and configuration: Spark's Python workers are reused for any task."""

from __future__ import annotations

import os
from collections.abc import Mapping

from barnabas.client.cluster import Cluster
from barnabas.client.settings import ClientSettings

_clusters: dict[tuple[int, frozenset[tuple[str, str]]], Cluster] = {}


def cluster(properties: Mapping[str, str]) -> Cluster:
    """Keyed by process too: Spark forks its workers, and a child must not write to its parent's sockets."""
    key = (os.getpid(), frozenset(properties.items()))
    if key not in _clusters:
        _clusters[key] = Cluster(ClientSettings.from_properties(properties))
    return _clusters[key]


def close_all() -> None:
    while _clusters:
        _clusters.popitem()[1].close()
