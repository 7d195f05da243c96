"""Requests that change something: what is to be written, and what is answered once it is.

Decisions are made by the primary on what it has replayed, plus what it has decided but not seen in the log yet
(`Pending`): registrations under different subjects are under way at the same time and must not take one id twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from barnabas.client.schemas import ParsedSchema
from barnabas.services.registry import errors
from barnabas.services.registry.ahead import normalized
from barnabas.services.registry.entities import (
    Tree,
    confluent_version,
    guid_of,
    merge_metadata,
    merge_rule_sets,
    reserved_fields,
    with_confluent_version,
    without_rules,
)
from barnabas.services.registry.levels import Level, check
from barnabas.services.registry.library import Library, check_fields
from barnabas.services.registry.lookup import find_equivalent
from barnabas.services.registry.records import (
    CLEAR_SUBJECT,
    CONFIG,
    CONTEXT,
    DELETE_SUBJECT,
    MODE,
    NOOP,
    SCHEMA,
    TENANT,
    Key,
    Record,
    StoredSchema,
)
from barnabas.services.registry.requests import SchemaRequest, TagRequest
from barnabas.services.registry.state import State, in_scope
from barnabas.services.registry.subjects import DEFAULT_CONTEXT, Subject, context_of
from barnabas.services.registry.tags import tags_of, with_tags

ALIASES = ("alias", "aliasForDeks")  # an empty one is none
READ_ONLY = ("READONLY", "READONLY_OVERRIDE")


@dataclass(slots=True)
class RegistryDecision:
    records: list[Record] = field(default_factory=list)
    answer: Any = None
    schema: StoredSchema | None = None  # the one that is registered


@dataclass(slots=True)
class Pending:
    """What was decided and is on its way to the log, by context."""

    id_max: dict[str, int] = field(default_factory=dict)
    ids: dict[tuple[str, str], int] = field(default_factory=dict)  # by context and guid

    def next_id(self, state: State, context: str) -> int:
        self.id_max[context] = max(self.id_max.get(context, 0), state.id_max.get(context, 0)) + 1
        return self.id_max[context]


@dataclass(frozen=True, slots=True)
class Rules:
    """The registry's own settings that decisions depend on."""

    level: Level = Level.BACKWARD
    mode_mutable: bool = True
    validate_new: bool = True
    validate_fields: bool = False

    def level_for(self, config: Tree) -> Level:
        return Level[config["compatibilityLevel"]] if config.get("compatibilityLevel") else self.level


def register(
    state: State,
    library: Library,
    pending: Pending,
    rules: Rules,
    subject: str,
    request: SchemaRequest,
    normalize: bool,
    *,
    force: bool = False,
) -> RegistryDecision:
    """`force` registers what is not compatible. What is imported is neither compared nor normalized."""
    _check_register_mode(state, subject, request.id)
    if request.tags_added or request.tags_removed:
        text = with_tags(request.type, request.text, request.tags_added, request.tags_removed)
        request = replace(request, text=text, version=request.version or -1)
    mode = state.mode_in_scope(subject)
    config = state.config_in_scope(subject)
    versions = state.versions(subject)[::-1]
    living = [each for each in versions if not each.deleted]
    new_version = max((each.version for each in versions), default=0) + 1
    if mode != "IMPORT":
        request = _filled_from_previous(request, config, living[0] if living else None, new_version)
    if not request.text.strip():
        raise errors.invalid_schema("Empty schema")
    if mode == "IMPORT":
        normalize, config = False, config | {"validateFields": False}
    parsed, request = canonicalized(library, rules, config, subject, request, normalize)
    context = context_of(subject)
    guid = guid_of(parsed.canonical, request.references, request.metadata, request.rule_set)
    schema_id = request.id
    known_id = state.id_of(context, guid)
    if known_id is not None and request.id in (-1, known_id):
        same = next((each for each in living if each.id == known_id), None)
        if request.version == 0 and same is not None:
            return RegistryDecision(answer=same, schema=same)
        schema_id = known_id
    if request.version == 0 and (same := find_equivalent(library, parsed, request, living, schema_id)) is not None:
        return RegistryDecision(answer=same, schema=same)
    if mode != "IMPORT" and not force:
        check_compatible(library, rules, config, subject, parsed, request, living)
    if request.version > 0 and request.version != new_version and mode != "IMPORT":
        raise errors.invalid_schema("Version is not one more than previous version")
    version = request.version if request.version > 0 else new_version
    if schema_id >= 0:
        _check_id_free(state, context, schema_id, guid)
    else:
        schema_id = pending.ids.get((context, guid), -1)
        if schema_id < 0:
            schema_id = pending.ids[context, guid] = pending.next_id(state, context)
    schema = StoredSchema(
        subject=subject,
        version=version,
        id=schema_id,
        type=parsed.type,
        text=parsed.canonical,
        references=request.references,
        metadata=request.metadata,
        rule_set=request.rule_set,
    )
    return RegistryDecision(_registration(state, schema, versions), schema, schema)


def modify_tags(
    state: State, library: Library, pending: Pending, rules: Rules, stored: StoredSchema, changes: TagRequest
) -> RegistryDecision:
    """The next version of a subject: the given one with other tags, metadata or rules."""
    rule_set = changes.rule_set
    if changes.rules_merged is not None or changes.rules_removed:
        before = state.version(stored.subject, changes.version - 1 if changes.version > 0 else -1)
        rule_set = merge_rule_sets(before.rule_set if before is not None else None, changes.rules_merged)
        rule_set = without_rules(rule_set, changes.rules_removed)
    request = SchemaRequest(
        text=stored.text,
        type=stored.type,
        version=changes.version,
        references=stored.references,
        metadata=stored.metadata if changes.metadata is None else changes.metadata,
        rule_set=rule_set,
        tags_added=changes.tags_added,
        tags_removed=changes.tags_removed,
    )
    return register(state, library, pending, rules, stored.subject, request, False)


def _registration(state: State, schema: StoredSchema, versions: list[StoredSchema]) -> list[Record]:
    records: list[Record] = []
    context = context_of(schema.subject)
    if context != DEFAULT_CONTEXT and context not in state.contexts:
        records.append(Record(Key(CONTEXT, context), {"tenant": TENANT, "context": context}))
    for each in versions:
        replaced = each.deleted and each.id == schema.id and each.version < schema.version
        if replaced and not state.users_of(each.subject, each.version, deleted=True):
            records.append(Record(Key(SCHEMA, each.subject, each.version), None))
    return [*records, schema.record()]


def canonicalized(
    library: Library, rules: Rules, config: Tree, subject: str, request: SchemaRequest, normalize: bool
) -> tuple[ParsedSchema, SchemaRequest]:
    """The schema, and the request with references to versions that exist."""
    is_new = request.id < 0 and bool(config.get("validateNewSchemas", rules.validate_new))
    request = replace(request, references=library.pinned(subject, request.references))
    parsed = library.parse(subject, request.type, request.text, request.references, is_new=is_new)
    if config.get("validateFields", rules.validate_fields):
        check_fields(parsed)
    if normalize:
        parsed = normalized(parsed)
        request = replace(request, references=tuple(sorted(set(request.references))))
    return parsed, request


def check_compatible(
    library: Library,
    rules: Rules,
    config: Tree,
    subject: str,
    parsed: ParsedSchema,
    request: SchemaRequest,
    living: list[StoredSchema],
) -> None:
    if messages := incompatibilities(library, rules, config, parsed, request, living):
        raise errors.incompatible(subject, messages)


def incompatibilities(
    library: Library,
    rules: Rules,
    config: Tree,
    parsed: ParsedSchema,
    request: SchemaRequest,
    living: list[StoredSchema],
) -> list[str]:
    """What is wrong with a schema after those of `living`, the latest first."""
    level = rules.level_for(config)
    earlier = compared_with(level, config, request, living)
    messages = check(level, parsed, ((each.version, lambda each=each: library.parsed(each)) for each in earlier))  # type: ignore[misc]
    validates = bool(config.get("validateFields", rules.validate_fields))
    if validates:
        messages = reserved_fields_broken(parsed, request, living[0] if living else None) + messages
    if messages:
        messages.append(f"{{validateFields: '{str(validates).lower()}', compatibility: '{level.value}'}}")
    return messages


def reserved_fields_broken(parsed: ParsedSchema, request: SchemaRequest, latest: StoredSchema | None) -> list[str]:
    """Names that metadata reserve are not used, and stay reserved."""
    reserved = reserved_fields(request.metadata)
    removed = sorted(reserved_fields(latest.metadata) - reserved) if latest is not None else []
    return [
        f"The new schema has reserved field {name} removed from its metadata which is present in the old schema's "
        "metadata."
        for name in removed
    ] + [
        f"The new schema has field that conflicts with the reserved field {name}."
        for name in sorted(reserved & parsed.top_level_fields())
    ]


def compared_with(level: Level, config: Tree, request: SchemaRequest, living: list[StoredSchema]) -> list[StoredSchema]:
    """Those of `living` that a level compares a new schema with."""
    if level is Level.NONE:
        return []
    if group := config.get("compatibilityGroup"):
        wanted = (request.metadata or {}).get("properties", {}).get(group)
        living = [each for each in living if (each.metadata or {}).get("properties", {}).get(group) == wanted]
    return living if level.transitive else living[:1]


def _filled_from_previous(
    request: SchemaRequest, config: Tree, previous: StoredSchema | None, new_version: int
) -> SchemaRequest:
    """What a request leaves out it takes from the version before and from the configuration."""
    if not request.text.strip():
        if previous is None:
            raise errors.invalid_schema("Empty schema")
        request = replace(request, text=previous.text, type=previous.type, references=previous.references)
    if request.keeps_tags and previous is not None and (tags := tags_of(previous.type, previous.text)):
        request = replace(request, text=with_tags(request.type, request.text, tags, {}))
    return with_defaults(request, config, previous, new_version)


def with_defaults(
    request: SchemaRequest, config: Tree, previous: StoredSchema | None, new_version: int | None
) -> SchemaRequest:
    metadata, rule_set = request.metadata, request.rule_set
    if previous is not None:
        metadata = previous.metadata if metadata is None else metadata
        rule_set = previous.rule_set if rule_set is None else rule_set
    metadata = merge_metadata(merge_metadata(config.get("defaultMetadata"), metadata), config.get("overrideMetadata"))
    rule_set = merge_rule_sets(merge_rule_sets(config.get("defaultRuleSet"), rule_set), config.get("overrideRuleSet"))
    if new_version is not None and (request.version != 0 or confluent_version(metadata) is not None):
        metadata = with_confluent_version(metadata, new_version)
    return replace(request, metadata=metadata, rule_set=rule_set)


def _check_register_mode(state: State, subject: str, schema_id: int) -> None:
    check_writable(state, subject)
    mode = state.mode_in_scope(subject)
    where = f"Subject {subject} in context {Subject.parse(subject).context_text}"
    if schema_id >= 0 and mode != "IMPORT":
        raise errors.not_permitted(f"{where} is not in import mode")
    if schema_id < 0 and mode != "READWRITE":
        raise errors.not_permitted(f"{where} is not in read-write mode")


def check_writable(state: State, subject: str | None) -> None:
    if state.mode_in_scope(subject) in READ_ONLY:
        context = Subject.parse(subject or "").context_text
        raise errors.not_permitted(f"Subject {subject or 'null'} in context {context} is in read-only mode")


def _check_id_free(state: State, context: str, schema_id: int, guid: str) -> None:
    owners = state.ids.get(context, {}).get(schema_id, ())
    if any(each.guid != guid for each in owners):
        shown = "" if context == DEFAULT_CONTEXT else f":{context}:"
        raise errors.not_permitted(f"Overwrite new schema with id {schema_id} in context {shown} is not permitted.")


def delete_version(state: State, subject: str, version: int, permanent: bool) -> RegistryDecision:
    stored = state.version(subject, version, deleted=True)
    if stored is None:
        if not state.has_subjects(subject, deleted=True):
            raise errors.subject_not_found(subject)
        raise errors.version_not_found(version)
    if stored.deleted and not permanent:
        raise errors.version_soft_deleted(subject, stored.version)
    check_writable(state, subject)
    if state.users_of(subject, stored.version, deleted=permanent):
        raise errors.reference_exists(subject, stored.version)
    if not permanent:
        return RegistryDecision([stored.record(deleted=True)], stored.version)
    if not stored.deleted:
        raise errors.version_not_soft_deleted(subject, stored.version)
    records = [*_keep_ids(state, [stored]), Record(Key(SCHEMA, subject, stored.version), None)]
    if len(state.versions(subject)) == 1:
        records += _forget_settings(state, subject)
    return RegistryDecision(records, stored.version)


def delete_subject(state: State, subject: str, permanent: bool) -> RegistryDecision:
    if not state.has_subjects(subject, deleted=True):
        raise errors.subject_not_found(subject)
    if not permanent and not state.has_subjects(subject, deleted=False):
        raise errors.subject_soft_deleted(subject)
    check_writable(state, subject)
    doomed = [each for each in state.versions(subject) if permanent or not each.deleted]
    for each in doomed:
        if _used_by_others(state, each, deleted=permanent):
            raise errors.reference_exists(subject, each.version)
        if permanent and not each.deleted:
            raise errors.subject_not_soft_deleted(subject)
    versions = [each.version for each in doomed]
    if not versions:  # a context has subjects in it, and no versions of its own
        return RegistryDecision(answer=versions)
    if not permanent:
        value = {"subject": subject, "version": versions[-1]}
        return RegistryDecision([Record(Key(DELETE_SUBJECT, subject), value)], versions)
    records = [Record(Key(SCHEMA, subject, version), None) for version in reversed(versions)]
    return RegistryDecision(_keep_ids(state, doomed) + records + _forget_settings(state, subject), versions)


def _keep_ids(state: State, doomed: Iterable[StoredSchema]) -> list[Record]:
    """The highest ids, written down before the schemas that show them go."""
    if any(each.id == state.id_max.get(context_of(each.subject)) for each in doomed):
        return [Record(Key(NOOP), {"idMax": dict(state.id_max)})]
    return []


def _used_by_others(state: State, schema: StoredSchema, *, deleted: bool) -> bool:
    for context, schema_id in state.users_of(schema.subject, schema.version, deleted=deleted):
        users = state.ids.get(context, {}).get(schema_id, ())
        if any(each.subject != schema.subject and (deleted or not each.deleted) for each in users):
            return True
    return False


def _forget_settings(state: State, subject: str) -> list[Record]:
    modes = [Record(Key(MODE, subject), None)] if subject in state.modes else []
    return modes + ([Record(Key(CONFIG, subject), None)] if subject in state.configs else [])


def set_config(state: State, subject: str | None, changes: Tree) -> RegistryDecision:
    check_writable(state, subject)
    config = {
        name: value
        for name, value in ((state.config(subject) or {}) | changes).items()
        if value is not None and not (value == "" and name in ALIASES)
    }
    value = ({"subject": subject} if subject is not None else {}) | config
    return RegistryDecision([Record(Key(CONFIG, subject), value)], config)


def delete_config(state: State, subject: str | None) -> RegistryDecision:
    check_writable(state, subject)
    return RegistryDecision([Record(Key(CONFIG, subject), None)])


def set_mode(state: State, rules: Rules, subject: str | None, mode: str | None, force: bool) -> RegistryDecision:
    if not rules.mode_mutable:
        raise errors.not_permitted("Mode changes are not allowed")
    records: list[Record] = []
    if mode == "IMPORT" and state.mode_in_scope(subject) != "IMPORT" and not force:
        if state.has_subjects(subject, deleted=False):
            raise errors.not_permitted("Cannot import since found existing subjects")
        for each in [name for name in state.subjects if in_scope(name, subject)]:
            for schema in state.versions(each):
                if state.users_of(each, schema.version, deleted=True):
                    raise errors.reference_exists(each, schema.version)
                records.append(Record(Key(SCHEMA, each, schema.version), None))
        records = _keep_ids(state, [each for name in state.subjects for each in state.versions(name)]) + records
        scope = {"subject": subject} if subject is not None else {}
        records.append(Record(Key(CLEAR_SUBJECT, subject), scope))
    value = None if mode is None else ({"subject": subject} if subject is not None else {}) | {"mode": mode}
    return RegistryDecision([*records, Record(Key(MODE, subject), value)])


def delete_mode(state: State, rules: Rules, subject: str | None, recursive: bool) -> RegistryDecision:
    if not rules.mode_mutable:
        raise errors.not_permitted("Mode changes are not allowed")
    records = [Record(Key(MODE, subject), None)]
    if recursive and not Subject.parse(subject or "").name:
        inside = [
            each for each in state.modes if each is not None and each != subject and in_scope(each, subject or "")
        ]
        records += [Record(Key(MODE, each), None) for each in inside]
    return RegistryDecision(records)


def delete_context(state: State, context: str) -> RegistryDecision:
    if state.has_subjects(context, deleted=True):
        raise errors.context_not_empty(context)
    return RegistryDecision([Record(Key(CONTEXT, Subject.parse(context).context), None)])
