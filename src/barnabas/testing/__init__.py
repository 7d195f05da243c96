"""A real broker for tests, or a cluster of them.

`Node` and `Cluster` are imported on first use: the pytest plugin of this package loads in every test run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.testing.cluster import Cluster as Cluster
    from barnabas.testing.node import Node as Node
    from barnabas.testing.node import StartFailed as StartFailed

__all__ = ["Cluster", "Node", "StartFailed"]


def __getattr__(name: str) -> Any:
    if name == "Cluster":
        from barnabas.testing.cluster import Cluster

        return Cluster
    if name in __all__:
        from barnabas.testing import node

        return getattr(node, name)
    raise AttributeError(name)
