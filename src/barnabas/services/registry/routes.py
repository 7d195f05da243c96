"""What each path of the API does."""

from __future__ import annotations

from typing import Any, NamedTuple

from barnabas.client.schemas import TYPES
from barnabas.services.registry import decide, errors
from barnabas.services.registry.advice import explained
from barnabas.services.registry.answers import (
    registered_tree,
    schema_by_id,
    schema_guid_tree,
    schema_id_tree,
    schema_tree,
)
from barnabas.services.registry.decide import RegistryDecision, canonicalized, incompatibilities, with_defaults
from barnabas.services.registry.entities import Tree, guid_of
from barnabas.services.registry.errors import RegistryError
from barnabas.services.registry.http import Call, Routes
from barnabas.services.registry.lookup import find_equivalent
from barnabas.services.registry.records import StoredSchema
from barnabas.services.registry.requests import (
    SchemaRequest,
    config_request,
    mode_request,
    schema_request,
    tag_request,
)
from barnabas.services.registry.service import Service
from barnabas.services.registry.settings import Limits
from barnabas.services.registry.state import State
from barnabas.services.registry.subjects import (
    ANY_CONTEXT,
    DEFAULT_CONTEXT,
    Subject,
    context_of,
    having_prefix,
    is_default_context,
    is_valid,
    normalized,
)
from barnabas.services.registry.tags import shown_tags
from barnabas.web.errors import plain_error

VERSION = {"version": "8.0.0", "commitId": "barnabas"}
INT_MAX = (1 << 31) - 1


def parse_version(text: str) -> int:
    """-1 is the latest."""
    given = text.strip()
    if given.lower() == "latest":
        return -1
    try:
        version = int(given) if given.lstrip("+-").isascii() and given.lstrip("+-").isdecimal() else 0
    except ValueError:
        version = 0
    if version != -1 and not 0 < version <= INT_MAX:
        raise errors.invalid_version(text)
    return version


def parse_id(text: str) -> int:
    if not (text.isascii() and text.lstrip("-").isdecimal() and len(text) <= 11):
        raise plain_error(404)
    return int(text)


def _limits(service: Service, what: str) -> Limits | None:
    return service.settings.limits.get(what)


async def root(service: Service, call: Call) -> Any:
    return {}


async def list_types(service: Service, call: Call) -> Any:
    return list(TYPES)


async def list_contexts(service: Service, call: Call) -> Any:
    await service.before_read()
    prefix = call.text("contextPrefix")
    found = [DEFAULT_CONTEXT, *sorted(service.state.contexts)]
    return call.page([each for each in found if each.startswith(prefix)], _limits(service, "context"))


async def delete_context(service: Service, call: Call) -> Any:
    context = normalized(call.parameters[0])
    await service.change(context, call, lambda: decide.delete_context(service.state, context), "Delete context")
    return None


async def list_schemas(service: Service, call: Call) -> Any:
    await service.before_read()
    state = service.state
    deleted, latest_only = call.flag("deleted"), call.flag("latestOnly")
    rule_type = call.text("ruleType")
    found: list[StoredSchema] = []
    aliases: dict[str, list[str]] = {}
    prefix = call.text("subjectPrefix")
    subjects = list(state.with_prefix(prefix))
    if call.flag("aliases"):
        aliases = _aliases(state, prefix)
        subjects = sorted({*subjects, *(each for each in aliases if each in state.subjects)})
    for subject in subjects:
        versions = [each for each in state.versions(subject) if deleted or not each.deleted]
        found += versions[-1:] if latest_only else versions
    if rule_type:
        found = [each for each in found if rule_type in rule_types(each)]
    shown = call.page(found, _limits(service, "schema"))
    return [schema_tree(each, aliases=aliases.get(each.subject)) for each in shown]


def _aliases(state: State, prefix: str) -> dict[str, list[str]]:
    """By the subject they stand for, the aliases that begin with the prefix."""
    found: dict[str, list[str]] = {}
    named = (subject for subject, config in state.configs.items() if subject is not None and config.get("alias"))
    for subject in having_prefix(named, prefix):
        target = Subject.parse(state.configs[subject]["alias"])
        name = target.text if target.context != DEFAULT_CONTEXT else Subject(context_of(subject), target.name).text
        found.setdefault(name, []).append(subject)
    return found


def rule_types(schema: StoredSchema) -> set[str]:
    rules = schema.rule_set or {}
    return {rule.get("type") for name, each in rules.items() if name.endswith("Rules") for rule in each}


async def schema_of_id(service: Service, call: Call) -> Any:
    stored = await _by_id(service, call)
    if not call.query and not Subject.parse(stored.subject).context_text:
        return schema_by_id(stored)
    shown = stored.text
    if form := call.text("format").strip():
        shown = service.library.parsed(stored).formatted(form)
    tree = schema_id_tree(stored, shown)
    if call.flag("fetchMaxId"):
        tree["maxId"] = service.state.id_max.get(context_of(stored.subject), 1)
    if call.text("referenceFormat") == "qualified":
        _qualify_references(tree, stored)
    return tree | shown_tags(stored, call.query.get("findTags", ()))


async def schema_text_of_id(service: Service, call: Call) -> Any:
    stored = await _by_id(service, call)
    if form := call.text("format").strip():
        return service.library.parsed(stored).formatted(form).encode()
    return stored.text.encode()


async def subjects_of_id(service: Service, call: Call) -> Any:
    found = [each.subject for each in await _uses_of_id(service, call)]
    return call.page(found, _limits(service, "subject"))


async def versions_of_id(service: Service, call: Call) -> Any:
    found = [{"subject": each.subject, "version": each.version} for each in await _uses_of_id(service, call)]
    return call.page(found, _limits(service, "subject.version"))


async def _uses_of_id(service: Service, call: Call) -> list[StoredSchema]:
    await service.before_read()
    stored = service.state.by_id_anywhere(parse_id(call.parameters[0]), _subject_asked(call))
    if stored is None:
        raise errors.schema_not_found()
    deleted = call.flag("deleted")
    return [each for each in service.state.subject_versions(stored) if deleted or not each.deleted]


async def _by_id(service: Service, call: Call) -> StoredSchema:
    schema_id, subject = parse_id(call.parameters[0]), _subject_asked(call)
    stored = service.state.by_id_anywhere(schema_id, subject)
    if stored is None:
        await service.before_read()
        stored = service.state.by_id_anywhere(schema_id, subject)
    if stored is None:
        raise errors.schema_not_found(schema_id)
    return stored


def _subject_asked(call: Call) -> str | None:
    return normalized(call.text("subject")) or None


async def schema_of_guid(service: Service, call: Call) -> Any:
    await service.before_read()
    guid = call.parameters[0].lower()
    state = service.state
    for context in (DEFAULT_CONTEXT, *sorted(state.contexts)):
        schema_id = state.id_of(context, guid)
        if schema_id is not None:
            stored = state.ids[context][schema_id][0]
            form = call.text("format").strip()
            return schema_guid_tree(stored, service.library.parsed(stored).formatted(form) if form else stored.text)
    raise errors.schema_not_found(call.parameters[0])


async def ids_of_guid(service: Service, call: Call) -> Any:
    await service.before_read()
    state = service.state
    guid = call.parameters[0].lower()
    found = [(context, state.id_of(context, guid)) for context in (".", *sorted(state.contexts))]
    return [{"context": context, "id": schema_id} for context, schema_id in found if schema_id is not None]


async def list_subjects(service: Service, call: Call) -> Any:
    await service.before_read()
    state = service.state
    found = list(state.with_prefix(call.text("subjectPrefix", ANY_CONTEXT)))
    if call.flag("deletedOnly"):
        found = [each for each in found if state.latest(each) is None]
    elif not call.flag("deleted"):
        found = [each for each in found if state.latest(each) is not None]
    return call.page(found, _limits(service, "subject"))


async def look_up(service: Service, call: Call) -> Any:
    await service.before_read()
    subject, request = call.parameters[0], schema_request(call.body)
    deleted = call.flag("deleted")
    normalize = call.flag("normalize") or bool(service.state.config_in_scope(subject).get("normalize"))
    contexts = sorted(service.state.contexts) if context_of(subject) == DEFAULT_CONTEXT else []
    found: Found | None = None
    problem: RegistryError | None = None
    async with service.prepared(subject, request):
        for each in (subject, *(Subject(context, subject).text for context in contexts)):
            try:
                found = find_schema(service, each, request, normalize, deleted)
            except RegistryError as error:
                problem = problem or (error if each == subject else None)
            if found is not None:
                break
    if found is None:
        if problem is not None:
            raise problem
        if not service.state.has_subjects(subject, deleted=deleted):
            raise errors.subject_not_found(subject)
        raise errors.schema_not_found()
    tree = _formatted(service, call, found.schema)
    # What is found by what it consists of is answered from the question, which knows no time and no deletion.
    return {key: value for key, value in tree.items() if not (found.exact and key in ("ts", "deleted"))}


class Found(NamedTuple):
    schema: StoredSchema
    exact: bool  # consists of what was asked for, not only means the same


def find_schema(service: Service, subject: str, request: SchemaRequest, normalize: bool, deleted: bool) -> Found | None:
    if not request.text.strip():
        return None
    config = service.state.config_in_scope(subject)
    found = _find(service, subject, request, normalize, deleted)
    latest = service.state.latest(subject)
    if found is not None or latest is None:
        return found
    filled = with_defaults(request, config, latest, None)
    return None if filled == request else _find(service, subject, filled, normalize, deleted)


def _find(
    service: Service, subject: str, request: SchemaRequest, normalize: bool, deleted: bool, *, latest_only: bool = False
) -> Found | None:
    """The version of the subject that is this schema."""
    state, library = service.state, service.library
    config = state.config_in_scope(subject) | {"validateNewSchemas": False}
    if state.mode_in_scope(subject) == "IMPORT":
        config |= {"validateFields": False}
    parsed, request = canonicalized(library, decide.Rules(validate_new=False), config, subject, request, normalize)
    versions = [each for each in state.versions(subject)[::-1] if deleted or not each.deleted]
    versions = versions[:1] if latest_only else versions
    guid = guid_of(parsed.canonical, request.references, request.metadata, request.rule_set)
    exact = next((each for each in versions if each.guid == guid), None)
    if exact is not None:
        return Found(exact, exact=True)
    equivalent = find_equivalent(library, parsed, request, versions)
    return None if equivalent is None else Found(equivalent, exact=False)


def _formatted(service: Service, call: Call, stored: StoredSchema) -> Tree:
    form = call.text("format").strip()
    return schema_tree(stored, service.library.parsed(stored).formatted(form) if form else None)


async def latest_with_metadata(service: Service, call: Call) -> Any:
    await service.before_read()
    subject, deleted = call.parameters[0], call.flag("deleted")
    wanted = dict(zip(call.query.get("key", []), call.query.get("value", []), strict=False))
    for stored in service.state.versions(subject)[::-1]:
        properties = (stored.metadata or {}).get("properties")
        if (deleted or not stored.deleted) and properties is not None and wanted.items() <= properties.items():
            return _formatted(service, call, stored)
    if not service.state.has_subjects(subject, deleted=deleted):
        raise errors.subject_not_found(subject)
    raise errors.schema_not_found()


async def delete_subject(service: Service, call: Call) -> Any:
    subject, permanent = call.parameters[0], call.flag("permanent")
    await service.before_read()
    if not service.state.has_subjects(subject, deleted=True):
        raise errors.subject_not_found(subject)
    decision = lambda: decide.delete_subject(service.state, subject, permanent)  # noqa: E731
    return await service.change(subject, call, decision, "Delete subject", concerns_references=True)


async def list_versions(service: Service, call: Call) -> Any:
    await service.before_read()
    subject, state = call.parameters[0], service.state
    deleted, only = call.flag("deleted"), call.flag("deletedOnly")
    if not state.has_subjects(subject, deleted=deleted or only):
        raise errors.subject_not_found(subject)
    versions = state.versions(subject)
    if call.flag("deletedAsNegative"):
        found = [-each.version if each.deleted else each.version for each in versions]
    else:
        found = [each.version for each in versions if (each.deleted if only else deleted or not each.deleted)]
    return call.page(found, _limits(service, "subject.version"))


async def register(service: Service, call: Call) -> Any:
    request = schema_request(call.body)
    if not is_valid(call.parameters[0], named=service.settings.rejects_empty_subjects):
        raise errors.invalid_subject(call.parameters[0])
    subject, state = call.parameters[0], service.state
    config = state.config_in_scope(subject)
    is_import, force = state.mode_in_scope(subject) == "IMPORT", call.flag("force")
    normalize = not is_import and (call.flag("normalize") or bool(config.get("normalize")))

    def decision() -> RegistryDecision:
        return decide.register(
            state, service.library, service.pending, service.rules, subject, request, normalize, force=force
        )

    async with service.prepared(subject, request):
        known = None if request.has_tags else _already_registered(service, subject, request, normalize)
        if known is not None:
            return _registered(service, call, known)
        if service.is_primary and not is_import and not force and not request.has_tags:
            living = [each for each in state.versions(subject)[::-1] if not each.deleted]
            await service.compare_ahead(subject, request, normalize, living)
        refers = bool(request.references)
        answer = await service.change(subject, call, decision, "Register", concerns_references=refers)
    return _registered(service, call, answer) if isinstance(answer, StoredSchema) else answer


def _registered(service: Service, call: Call, stored: StoredSchema) -> Any:
    form = call.text("format").strip()
    return registered_tree(stored, service.library.parsed(stored).formatted(form) if form else None)


def _already_registered(service: Service, subject: str, request: SchemaRequest, normalize: bool) -> StoredSchema | None:
    """What every instance can answer by itself: the schema is there."""
    config = service.state.config_in_scope(subject)
    changed = ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet")
    if subject not in service.state.subjects or not request.text.strip() or any(name in config for name in changed):
        return None
    looked_up = _find(service, subject, request, normalize, False, latest_only=request.version == -1)
    if looked_up is None or (request.id >= 0 and request.id != looked_up.schema.id):
        return None
    found = looked_up.schema
    if request.version > 0:  # one that is asked for must be new, but for an import that comes again
        return found if request.id == found.id and request.version == found.version else None
    return found


async def schema_of_version(service: Service, call: Call) -> Any:
    stored = await _version(service, call, deleted=call.flag("deleted"))
    tree = _formatted(service, call, stored)
    if call.text("referenceFormat") == "qualified":
        _qualify_references(tree, stored)
    return tree | shown_tags(stored, call.query.get("findTags", ()))


async def schema_text_of_version(service: Service, call: Call) -> Any:
    stored = await _version(service, call, deleted=call.flag("deleted"))
    form = call.text("format").strip()
    return (service.library.parsed(stored).formatted(form) if form else stored.text).encode()


async def referenced_by(service: Service, call: Call) -> Any:
    stored = await _version(service, call, deleted=True)
    users = service.state.users_of(stored.subject, stored.version, deleted=call.flag("deleted"))
    return call.page([schema_id for _, schema_id in users], _limits(service, "schema"))


async def _version(service: Service, call: Call, *, deleted: bool) -> StoredSchema:
    subject, version = call.parameters[0], parse_version(call.parameters[1])
    await service.before_read()
    state = service.state
    contexts = sorted(state.contexts) if context_of(subject) == DEFAULT_CONTEXT else []
    for each in (subject, *(Subject(context, subject).text for context in contexts)):
        if (stored := state.version(each, version, deleted=deleted)) is not None:
            return stored
    if not state.has_subjects(subject, deleted=deleted):
        raise errors.subject_not_found(subject)
    raise errors.version_not_found(version)


def _qualify_references(tree: Any, stored: StoredSchema) -> None:
    context = context_of(stored.subject)
    if context == DEFAULT_CONTEXT:
        return
    for reference in tree.get("references", ()):
        if context_of(reference["subject"]) == DEFAULT_CONTEXT:
            reference["subject"] = Subject(context, reference["subject"]).text


async def modify_tags(service: Service, call: Call) -> Any:
    if not is_valid(call.parameters[0]):
        raise errors.invalid_subject(call.parameters[0])
    changes, stored = tag_request(call.body), await _version(service, call, deleted=False)
    decision = lambda: decide.modify_tags(  # noqa: E731
        service.state, service.library, service.pending, service.rules, stored, changes
    )
    answer = await service.change(
        stored.subject, call, decision, "Modify tags", concerns_references=bool(stored.references)
    )
    return _registered(service, call, answer) if isinstance(answer, StoredSchema) else answer


async def delete_version(service: Service, call: Call) -> Any:
    subject, version = call.parameters[0], parse_version(call.parameters[1])
    permanent = call.flag("permanent")
    decision = lambda: decide.delete_version(service.state, subject, version, permanent)  # noqa: E731
    return await service.change(subject, call, decision, "Delete Schema Version", concerns_references=True)


async def test_compatibility(service: Service, call: Call) -> Any:
    await service.before_read()
    subject, state = call.parameters[0], service.state
    living = [each for each in state.versions(subject)[::-1] if not each.deleted]
    if len(call.parameters) > 1:
        version = parse_version(call.parameters[1])
        stored = state.version(subject, version)
        if stored is None and version != -1:
            raise errors.version_not_found(version)
        living = [] if stored is None else [stored]
    # Confluent's clients say verbose=true and break on fields they do not know; `?verbose` alone asks for more.
    wants_diff = call.query.get("verbose") in ([""], ["diff"])
    request, verbose = schema_request(call.body), call.flag("verbose") or wants_diff
    config = state.config_in_scope(subject)
    normalize = call.flag("normalize") or bool(config.get("normalize"))
    try:
        if not request.text.strip():
            raise errors.invalid_schema("Empty schema")
        async with service.prepared(subject, request):
            await service.compare_ahead(subject, request, normalize, living)
            parsed, request = canonicalized(service.library, service.rules, config, subject, request, normalize)
            messages = incompatibilities(service.library, service.rules, config, parsed, request, living)
    except RegistryError as error:
        if not verbose or error.code != 42201:
            raise
        messages = [error.message]
    answer = {"is_compatible": not messages} | ({"messages": messages} if verbose else {})
    return answer | ({"diff": explained(messages)} if wants_diff else {})


def _settings_subject(call: Call) -> str | None:
    """None for the settings of everything."""
    if not call.parameters or is_default_context(call.parameters[0]):
        return None
    return normalized(call.parameters[0])


async def get_config(service: Service, call: Call) -> Any:
    await service.before_read()
    subject, state = _settings_subject(call), service.state
    default = {"compatibilityLevel": service.rules.level.value}
    if call.flag("defaultToGlobal"):
        return default | state.config_in_scope(subject)
    found = state.config(subject)
    if found is None and subject is not None and context_of(subject) != ".__GLOBAL":
        raise errors.no_subject_config(subject)
    return default | (found or {})


async def put_config(service: Service, call: Call) -> Any:
    changes, subject = config_request(call.body), _settings_subject(call)
    if subject is not None and not is_valid(subject, for_settings=True):
        raise errors.invalid_subject(subject)
    decision = lambda: decide.set_config(service.state, subject, changes)  # noqa: E731
    answer = await service.change(subject, call, decision, "Update config")
    return {("compatibility" if name == "compatibilityLevel" else name): each for name, each in answer.items()}


async def delete_config(service: Service, call: Call) -> Any:
    await service.before_read()
    subject = _settings_subject(call)
    config = service.state.config(subject)
    if config is None and subject is not None:
        raise errors.subject_not_found(subject)
    await service.change(subject, call, lambda: decide.delete_config(service.state, subject), "Delete config")
    return {"compatibilityLevel": service.rules.level.value} | (config or {})


async def get_mode(service: Service, call: Call) -> Any:
    await service.before_read()
    subject, state = _settings_subject(call), service.state
    if call.flag("defaultToGlobal"):
        return {"mode": state.mode_in_scope(subject)}
    found = state.modes.get(subject)
    if found is None and subject is not None and context_of(subject) != ".__GLOBAL":
        raise errors.no_subject_mode(subject)
    return {"mode": found or "READWRITE"}


async def put_mode(service: Service, call: Call) -> Any:
    mode, echoed = mode_request(call.body)
    subject, force = _settings_subject(call), call.flag("force")
    if subject is not None and not is_valid(subject, for_settings=True):
        raise errors.invalid_subject(subject)
    decision = lambda: decide.set_mode(service.state, service.rules, subject, mode, force)  # noqa: E731
    await service.change(subject, call, decision, "Update mode", concerns_references=True)
    return echoed


async def delete_mode(service: Service, call: Call) -> Any:
    await service.before_read()
    subject, recursive = _settings_subject(call), call.flag("recursive")
    mode = service.state.modes.get(subject)
    if mode is None and subject is not None and not recursive:
        raise errors.subject_not_found(subject)
    decision = lambda: decide.delete_mode(service.state, service.rules, subject, recursive)  # noqa: E731
    await service.change(subject, call, decision, "Delete mode")
    shown = mode if mode is not None or subject is not None else "READWRITE"
    return {} if shown is None else {"mode": shown}


async def cluster_id(service: Service, call: Call) -> Any:
    clusters = {"kafka-cluster": service.topic.cluster_id, "schema-registry-cluster": service.settings.group_id}
    return {"scope": {"path": [], "clusters": clusters}, "id": ""}


async def version(service: Service, call: Call) -> Any:
    return VERSION


async def deployment(service: Service, call: Call) -> Any:
    return {"attributes": list(service.settings.deployment)}


CONFIG = {"GET": get_config, "PUT": put_config, "DELETE": delete_config}
MODE = {"GET": get_mode, "PUT": put_mode, "DELETE": delete_mode}
ROUTES: Routes = {
    (): {"GET": root, "POST": root},
    ("schemas", "ids", "*"): {"GET": schema_of_id},
    ("schemas", "ids", "*", "schema"): {"GET": schema_text_of_id},
    ("schemas", "ids", "*", "subjects"): {"GET": subjects_of_id},
    ("schemas", "ids", "*", "versions"): {"GET": versions_of_id},
    ("schemas", "guids", "*"): {"GET": schema_of_guid},
    ("schemas", "guids", "*", "ids"): {"GET": ids_of_guid},
    ("schemas", "types"): {"GET": list_types},
    ("schemas",): {"GET": list_schemas},
    ("subjects",): {"GET": list_subjects},
    ("subjects", "*"): {"POST": look_up, "DELETE": delete_subject},
    ("subjects", "*", "metadata"): {"GET": latest_with_metadata},
    ("subjects", "*", "versions"): {"GET": list_versions, "POST": register},
    ("subjects", "*", "versions", "*"): {"GET": schema_of_version, "DELETE": delete_version},
    ("subjects", "*", "versions", "*", "schema"): {"GET": schema_text_of_version},
    ("subjects", "*", "versions", "*", "referencedby"): {"GET": referenced_by},
    ("subjects", "*", "versions", "*", "tags"): {"POST": modify_tags},
    ("compatibility", "subjects", "*", "versions"): {"POST": test_compatibility},
    ("compatibility", "subjects", "*", "versions", "*"): {"POST": test_compatibility},
    ("config",): CONFIG,
    ("config", "*"): CONFIG,
    ("mode",): MODE,
    ("mode", "*"): MODE,
    ("contexts",): {"GET": list_contexts},
    ("contexts", "*"): {"DELETE": delete_context},
    ("v1", "metadata", "id"): {"GET": cluster_id},
    ("v1", "metadata", "version"): {"GET": version},
    ("v1", "metadata", "deployment"): {"GET": deployment},
}
