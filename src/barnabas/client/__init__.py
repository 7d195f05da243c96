"""Our own small client: what brokers, tools and tests need and the common clients do not expose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.client.share_consumer import ShareConsumer

__all__ = ["ShareConsumer"]


def __getattr__(name: str) -> Any:
    """Imported when it is asked for: every part of the house imports something of this package."""
    if name == "ShareConsumer":
        from barnabas.client.share_consumer import ShareConsumer

        return ShareConsumer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
