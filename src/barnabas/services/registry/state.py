"""What the registry knows, by replay of `_schemas` from its start. Every instance replays the same records in the same
order, so every instance knows the same.

- A SCHEMA record makes a version of a subject; with `deleted` it is soft-deleted, with no value it is gone.
- DELETE_SUBJECT soft-deletes all versions up to one; CLEAR_SUBJECT removes what is soft-deleted, before an import.
- CONFIG and MODE are settings of a subject, of a context (`:.name:`) or, with no subject, of everything.
- An id belongs to the first schema that took it. A record that gives the id of one schema to another is refused, here
  and on every other instance: two instances that both believed to be the primary cannot give one id twice. A version
  belongs to its first schema in the same way, but where subjects are imported: what a former primary has sent may lie
  in the network and arrive when another has long used the number. Who writes undoes such a record (`refused`), for
  compaction could otherwise turn the order round.
- The highest id ever seen is kept even if its schema goes: ids are not used again. A NOOP record with a value keeps it
  through compaction; Confluent's registry skips NOOP records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from barnabas.services.registry.entities import Tree
from barnabas.services.registry.records import (
    CLEAR_SUBJECT,
    CONFIG,
    CONTEXT,
    DELETE_SUBJECT,
    MODE,
    NOOP,
    SCHEMA,
    Key,
    StoredSchema,
    schema_from,
)
from barnabas.services.registry.subjects import (
    DEFAULT_CONTEXT,
    GLOBAL_CONTEXT,
    Subject,
    beside,
    context_of,
    having_prefix,
)

ContextId = tuple[str, int]
GLOBAL_SETTINGS = f":{GLOBAL_CONTEXT}:"


class State:
    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, StoredSchema]] = {}
        self.ids: dict[str, dict[int, list[StoredSchema]]] = {}  # by context; one schema of each subject
        self.guids: dict[str, dict[str, int]] = {}  # by context
        self.referenced_by: dict[tuple[str, int], set[ContextId]] = {}
        self.configs: dict[str | None, Tree] = {}
        self.modes: dict[str | None, str] = {}
        self.contexts: set[str] = set()
        self.id_max: dict[str, int] = {}
        self.refused: dict[Key, StoredSchema | None] = {}  # to be undone: the key, and what belongs under it
        self.epoch = 0  # counts the changes

    def replay(self, key: Key, value: Tree | None, timestamp_ms: int) -> None:
        self.epoch += 1
        if key.kind == SCHEMA:
            self._replay_schema(key, value, timestamp_ms)
        elif key.kind == CONFIG:
            _set(self.configs, key.subject, None if value is None else _config_of(value))
        elif key.kind == MODE:
            _set(self.modes, key.subject, None if value is None else str(value.get("mode")))
        elif key.kind == CONTEXT and key.subject:
            (self.contexts.discard if value is None else self.contexts.add)(key.subject)
        elif key.kind == DELETE_SUBJECT and value is not None:
            for version, schema in self.subjects.get(value.get("subject") or "", {}).items():
                if version <= value.get("version", 0) and not schema.deleted:
                    schema.deleted, schema.answer = True, None
        elif key.kind == CLEAR_SUBJECT and value is not None:
            self._clear(value.get("subject"))
        elif key.kind == NOOP and value is not None:
            for context, highest in (value.get("idMax") or {}).items():
                self.id_max[context] = max(self.id_max.get(context, 0), highest)

    def _replay_schema(self, key: Key, value: Tree | None, timestamp_ms: int) -> None:
        assert key.subject is not None or value is None or "subject" in value
        subject, version = key.subject or "", key.version or 0
        self.refused.pop(key, None)
        if value is None:
            self._remove(subject, version)
            return
        schema = schema_from(value, timestamp_ms)
        context = context_of(subject)
        self.id_max[context] = max(self.id_max.get(context, 0), schema.id)
        owners = self.ids.setdefault(context, {}).get(schema.id, [])
        existing = self.subjects.get(subject, {}).get(version)
        taken = existing is not None and (existing.id, existing.text) != (schema.id, schema.text)
        if (taken and self.mode_in_scope(subject) != "IMPORT") or any(
            each.text != schema.text for each in owners if each is not existing
        ):
            self.refused[key] = existing
            return
        place = _place_of(subject, owners)
        self._remove(subject, version)
        self.subjects.setdefault(subject, {})[version] = schema
        owned = self.ids[context].setdefault(schema.id, [])
        owned[:] = [each for each in owned if each.subject != subject]
        owned.insert(place, schema)
        self.guids.setdefault(context, {})[schema.guid] = schema.id
        for reference in schema.references:
            used = beside(subject, reference.subject), reference.version
            self.referenced_by.setdefault(used, set()).add((context, schema.id))

    def _remove(self, subject: str, version: int) -> None:
        schema = self.subjects.get(subject, {}).pop(version, None)
        if schema is None:
            return
        if not self.subjects[subject]:
            del self.subjects[subject]
        context = context_of(subject)
        owned = self.ids[context].get(schema.id, [])
        if schema in owned:
            # An earlier version of the subject may be the same schema.
            others = [each for each in self.subjects.get(subject, {}).values() if each.id == schema.id]
            place = owned.index(schema)
            owned[place : place + 1] = others[-1:]
        if not owned:
            self.ids[context].pop(schema.id, None)
            if self.guids.get(context, {}).get(schema.guid) == schema.id:
                del self.guids[context][schema.guid]
            for reference in schema.references:
                used = beside(subject, reference.subject), reference.version
                users = self.referenced_by.get(used, set())
                users.discard((context, schema.id))
                if not users:
                    self.referenced_by.pop(used, None)

    def _clear(self, scope: str | None) -> None:
        for subject in [each for each in self.subjects if in_scope(each, scope)]:
            for version in [each.version for each in self.subjects[subject].values() if each.deleted]:
                self._remove(subject, version)

    # Questions.

    def version(self, subject: str, version: int, *, deleted: bool = False) -> StoredSchema | None:
        """-1 is the latest that is not deleted."""
        if version == -1:
            return self.latest(subject)
        found = self.subjects.get(subject, {}).get(version)
        return found if found is not None and (deleted or not found.deleted) else None

    def latest(self, subject: str) -> StoredSchema | None:
        living = [each for each in self.subjects.get(subject, {}).values() if not each.deleted]
        return max(living, key=lambda each: each.version, default=None)

    def versions(self, subject: str) -> list[StoredSchema]:
        """All of them, deleted ones too, the first version first."""
        found = self.subjects.get(subject, {})
        return [found[version] for version in sorted(found)]

    def has_subjects(self, scope: str | None, *, deleted: bool) -> bool:
        """Of a subject, or of a context if the scope is one."""
        if scope in self.subjects:
            return deleted or self.latest(scope) is not None
        if scope is not None and Subject.parse(scope).name:
            return False
        return any(in_scope(each, scope) and (deleted or self.latest(each) is not None) for each in self.subjects)

    def by_id(self, schema_id: int, subject: str | None) -> StoredSchema | None:
        """In the subject's context, and under that very subject if one is named."""
        wanted = Subject.parse(subject or "")
        for each in self.ids.get(wanted.context, {}).get(schema_id, ()):
            if not wanted.name or each.subject == subject:
                return each
        return None

    def by_id_anywhere(self, schema_id: int, subject: str | None) -> StoredSchema | None:
        """A subject without a context is looked for in all contexts."""
        wanted = Subject.parse(subject or "")
        found = self.by_id(schema_id, subject)
        if found is not None or not wanted.name or wanted.context != DEFAULT_CONTEXT:
            return found
        for context in sorted(self.contexts):
            if (found := self.by_id(schema_id, Subject(context, wanted.name).text)) is not None:
                return found
        return self.by_id(schema_id, None)

    def subject_versions(self, schema: StoredSchema) -> list[StoredSchema]:
        """Where the schema with this one's id is used in its context."""
        return self.ids.get(context_of(schema.subject), {}).get(schema.id, [])

    def id_of(self, context: str, guid: str) -> int | None:
        return self.guids.get(context, {}).get(guid)

    def with_prefix(self, prefix: str) -> Iterator[str]:
        """Subjects in order."""
        return iter(having_prefix(self.subjects, prefix))

    def users_of(self, subject: str, version: int, *, deleted: bool) -> list[ContextId]:
        """Contexts and ids of the schemas that refer to a version."""
        return sorted(
            (context, schema_id)
            for context, schema_id in self.referenced_by.get((subject, version), ())
            if deleted or any(not each.deleted for each in self.ids.get(context, {}).get(schema_id, ()))
        )

    def config(self, subject: str | None) -> Tree | None:
        return self.configs.get(subject)

    def config_in_scope(self, subject: str | None) -> Tree:
        """Of the subject, else of its context, else of everything; what nobody set is missing."""
        return next((self.configs[each] for each in scopes(subject) if each in self.configs), {})

    def mode_in_scope(self, subject: str | None) -> str:
        if self.modes.get(None) == "READONLY_OVERRIDE":
            return "READONLY_OVERRIDE"
        return next((self.modes[each] for each in scopes(subject) if each in self.modes), "READWRITE")


def _place_of(subject: str, owners: Sequence[StoredSchema]) -> int:
    """Subjects that share an id stay in the order in which they came."""
    return next((place for place, each in enumerate(owners) if each.subject == subject), len(owners))


def scopes(subject: str | None) -> Iterable[str | None]:
    yield subject
    parsed = Subject.parse(subject or "")
    yield None if parsed.context == DEFAULT_CONTEXT else parsed.context_text
    yield GLOBAL_SETTINGS


def in_scope(subject: str, scope: str | None) -> bool:
    if scope is None or scope in (subject, GLOBAL_SETTINGS):
        return True
    wanted = Subject.parse(scope)
    return not wanted.name and wanted.context == context_of(subject)


def _set(
    settings: dict[str | None, Tree] | dict[str | None, str], subject: str | None, value: Tree | str | None
) -> None:
    if value is None:
        settings.pop(subject, None)
    else:
        settings[subject] = value  # type: ignore[assignment]


def _config_of(value: Tree) -> Tree:
    return {key: each for key, each in value.items() if key not in ("subject", "offset", "ts") and each is not None}
