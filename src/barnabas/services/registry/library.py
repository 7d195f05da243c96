"""Parsed schemas of stored ones, the most recently used kept, with their references found in the state."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from barnabas.client.schemas import InvalidSchema, ParsedSchema, ResolvedReference, parse_schema
from barnabas.services.registry.ahead import AHEAD
from barnabas.services.registry.entities import Reference
from barnabas.services.registry.errors import invalid_schema
from barnabas.services.registry.records import StoredSchema
from barnabas.services.registry.state import State
from barnabas.services.registry.subjects import beside

KEPT_MAX = 1000
HASHES_MAX = 200_000
REFERENCES_MAX = 10_000


class Library:
    def __init__(self, state: State, *, strict_references: bool = False) -> None:
        self._state = state
        self._strict = strict_references  # nobody refers to two versions under one name
        self._kept: OrderedDict[tuple[str, str, str], ParsedSchema] = OrderedDict()
        self._hashes: dict[tuple[str, str], int] = {}

    def parsed(self, stored: StoredSchema) -> ParsedSchema:
        key = stored.subject if stored.references else "", stored.type, stored.guid
        found = self._kept.get(key)
        if found is None:
            found = self.parse(stored.subject, stored.type, stored.text, stored.references, is_new=False)
            self._kept[key] = found
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return found

    def comparable_hash(self, stored: StoredSchema) -> int:
        """Of the text of a schema that refers to nothing. A subject may have thousands of versions, and each
        registration looks whether it is one of them."""
        key = stored.type, stored.guid
        if key not in self._hashes:
            if len(self._hashes) >= HASHES_MAX:
                self._hashes.clear()
            self._hashes[key] = hash(self.parsed(stored).comparable)
        return self._hashes[key]

    def parse(
        self, subject: str, schema_type: str, text: str, references: Iterable[Reference], *, is_new: bool = True
    ) -> ParsedSchema:
        key = schema_type, text, tuple(self.resolve(subject, references, deleted=not is_new)), is_new
        ahead = AHEAD.get()
        if ahead is None:
            return _parse(*key)
        if key not in ahead.parsed:
            ahead.parsed[key] = _parse(*key)
        return ahead.parsed[key]

    def preparation(
        self, subject: str, schema_type: str, text: str, references: Iterable[Reference], *, is_new: bool
    ) -> Callable[[], None]:
        """To be called in a thread: parses a large schema, so that `parse` finds it ready."""
        key = schema_type, text, tuple(self.resolve(subject, references, deleted=not is_new)), is_new

        def prepare() -> None:
            ahead, parsed = AHEAD.get(), _parse(*key)
            assert ahead is not None
            assert parsed.canonical is not None  # which is kept with it
            ahead.parsed[key] = parsed

        return prepare

    def resolve(self, subject: str, references: Iterable[Reference], *, deleted: bool) -> list[ResolvedReference]:
        """The schemas that are referred to, those they refer to before them. One that refers to itself in a circle is
        taken once."""
        found: dict[str, str] = {}
        visited: dict[str, int] = {}
        self._resolve(subject, references, found, visited, deleted, 0)
        return [ResolvedReference(name, text) for name, text in found.items()]

    def _resolve(
        self,
        subject: str,
        references: Iterable[Reference],
        found: dict[str, str],
        visited: dict[str, int],
        deleted: bool,
        depth: int,
    ) -> None:
        for reference in references:
            used = beside(subject, reference.subject)
            stored = self._state.version(used, reference.version, deleted=deleted)
            if stored is None:
                raise invalid_schema(
                    f'Invalid schema, details: No schema reference found for subject "{used}" and version '
                    f"{reference.version}"
                )
            if reference.name in visited:
                if self._strict and visited[reference.name] != stored.version:
                    raise invalid_schema(
                        f'Invalid schema, details: Conflicting reference versions for "{reference.name}": version '
                        f"{visited[reference.name]} and version {stored.version}"
                    )
                continue
            visited[reference.name] = stored.version
            if len(visited) > REFERENCES_MAX or depth > 500:
                raise invalid_schema("Invalid schema, details: it refers to too many schemas")
            self._resolve(used, stored.references, found, visited, deleted, depth + 1)
            found[reference.name] = stored.text

    def pinned(self, subject: str, references: Iterable[Reference]) -> tuple[Reference, ...]:
        """References to the latest version (-1) as references to the version that it is now."""
        pinned = []
        for reference in references:
            latest = self._state.latest(beside(subject, reference.subject)) if reference.version == -1 else None
            pinned.append(reference if latest is None else reference._replace(version=latest.version))
        return tuple(pinned)


def check_fields(parsed: ParsedSchema) -> None:
    try:
        parsed.check_fields()
    except InvalidSchema as error:
        raise invalid_schema(f"Invalid schema of type {parsed.type}, details: {error}") from None


def _parse(schema_type: str, text: str, references: tuple[ResolvedReference, ...], is_new: bool) -> ParsedSchema:
    try:
        return parse_schema(schema_type, text, references, is_new=is_new)
    except InvalidSchema as error:
        raise invalid_schema(str(error)) from None
