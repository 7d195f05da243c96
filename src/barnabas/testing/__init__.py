"""A real broker for tests, and the reference beside it.

`Node` is imported on first use: the pytest plugin of this package loads in every test run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.testing.node import Node as Node
    from barnabas.testing.node import StartFailed as StartFailed

__all__ = ["Node", "StartFailed"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from barnabas.testing import node

        return getattr(node, name)
    raise AttributeError(name)
