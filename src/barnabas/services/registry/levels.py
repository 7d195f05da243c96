"""The seven compatibility levels: who has to be able to read whom, and what is said when one cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from barnabas.client.schemas import ParsedSchema
from barnabas.services.registry.ahead import unreadable

OTHER_TYPE = "Incompatible because of different schema type"
SHOWN_SCHEMA_MAX = 10 * 1024


class Level(Enum):
    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @classmethod
    def named(cls, text: str) -> Level | None:
        return cls.__members__.get(text.upper())

    @property
    def transitive(self) -> bool:
        return self.value.endswith("_TRANSITIVE")

    @property
    def new_reads_old(self) -> bool:
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def old_reads_new(self) -> bool:
        return self.value.startswith(("FORWARD", "FULL"))


Previous = tuple[int, Callable[[], ParsedSchema]]


def check(level: Level, schema: ParsedSchema, previous: Iterable[Previous]) -> list[str]:
    """What is wrong with a new schema; `previous` are versions and schemas, the latest first."""
    if level is Level.NONE:
        return []
    for version, load in previous:
        messages = _against(level, schema, version, load())
        if messages or not level.transitive:
            return messages
    return []


def _against(level: Level, new: ParsedSchema, version: int, old: ParsedSchema) -> list[str]:
    if new.type != old.type:
        return [OTHER_TYPE]
    forward = unreadable(old, new, "old", "new") if level.old_reads_new else []
    backward = unreadable(new, old, "new", "old") if level.new_reads_old else []
    if backward or (forward and not level.new_reads_old):
        shown = old.canonical
        if len(shown) > SHOWN_SCHEMA_MAX:
            tail = f"{{oldSchema: <truncated> '{shown[:SHOWN_SCHEMA_MAX]}...'}}"
        else:
            tail = f"{{oldSchema: '{shown}'}}"
        return [*forward, *backward, f"{{oldSchemaVersion: {version}}}", tail]
    return forward
