"""What a log leaves to its directory, so that nothing on the event loop waits for a disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.node.storage.files import unlink_all

if TYPE_CHECKING:
    from barnabas.node.storage.log import PartitionLog


class Background(Protocol):
    """The log directory, as a log sees it."""

    def flush_later(self, log: PartitionLog) -> None: ...

    def delete_later(self, paths: list[str], delay_ms: int) -> None: ...

    def failed(self, error: OSError) -> None: ...


class Abortable(Protocol):
    """Work on a log's files that must stop before somebody else changes them."""

    def abort(self) -> None: ...


class Foreground:
    """Does it at once: for tools and tests."""

    def flush_later(self, log: PartitionLog) -> None:
        log.flush()

    def delete_later(self, paths: list[str], delay_ms: int) -> None:
        unlink_all(paths)

    def failed(self, error: OSError) -> None:
        return None
