"""What a connector's configuration says and where it is wrong, in the shape of Connect's validation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from barnabas.pipelines.connect.config import REQUIRED, Checked, Definition, Setting, at_least, one_of, with_prefix
from barnabas.pipelines.connect.errors import ConfigError
from barnabas.pipelines.connect.plane.orders import RATE
from barnabas.pipelines.connect.plane.tolerance import ERROR_SETTINGS
from barnabas.pipelines.connect.plugins import Plugin, need
from barnabas.pipelines.connect.transforms.chain import NOT_OWN, aliases, make_chain
from barnabas.pipelines.connect.worker.settings import WorkerSettings

RESTART = one_of("none", "restart", ignore_case=True)
COMMON = Definition(
    [
        Setting("name", doc="Globally unique name of this connector.", group="Common", display="Connector name"),
        Setting("connector.class", doc="Name or alias of the class for this connector.", group="Common",
                display="Connector class", width="LONG"),
        Setting("connector.plugin.version", "STRING", None, "MEDIUM", "Kept for configurations that have it.",
                group="Common"),
        Setting("tasks.max", "INT", 1, doc="Maximum number of tasks to use for this connector.", check=at_least(1),
                group="Common", display="Tasks max", width="SHORT"),
        Setting("tasks.max.enforce", "BOOLEAN", True, "LOW", group="Common"),
        Setting("key.converter", "CLASS", None, "LOW", "Converter class of keys.", group="Common"),
        Setting("value.converter", "CLASS", None, "LOW", "Converter class of values.", group="Common"),
        Setting("header.converter", "CLASS", None, "LOW", "HeaderConverter class.", group="Common"),
        *(Setting(f"{side}.converter.plugin.version", "STRING", None, "LOW", "Kept for configurations that have it.",
                  group="Common") for side in ("key", "value", "header")),
        Setting("transforms", "LIST", [], "LOW", "Aliases for the transformations.", group="Transforms"),
        Setting("predicates", "LIST", [], "LOW", "Aliases for the predicates.", group="Predicates"),
        Setting(RATE, "INT", 0, "LOW", "Records a second that the connector may move, 0 for no limit. Not of Connect.",
                at_least(0), "Common"),
        Setting("config.action.reload", "STRING", "restart", "LOW", "When values of config providers change.",
                RESTART, "Common"),
    ]
)  # fmt: skip
# Settings whose names hold other names: of transformations, of clients and of converters, which have their own.
FREE = re.compile(r"(transforms|predicates|topic\.creation)\.|(\w+)\.(override|converter)\.")
SINK = Definition(
    [
        Setting("topics", "LIST", [], doc="List of topics to consume, separated by commas.", group="Common"),
        Setting("topics.regex", "STRING", "", doc="Regular expression giving topics to consume.", group="Common"),
    ]
)
SOURCE = Definition(
    [
        Setting("topic.creation.groups", "LIST", [], "LOW", group="Topic Creation"),
        Setting("exactly.once.support", "STRING", "requested", "MEDIUM", group="Exactly Once Support",
                check=one_of("requested", "required", ignore_case=True)),
        Setting("transaction.boundary", "STRING", "poll", "MEDIUM", group="Exactly Once Support"),
        Setting("transaction.boundary.interval.ms", "LONG", None, "LOW", group="Exactly Once Support"),
        Setting("offsets.storage.topic", "STRING", None, "LOW", group="offsets.topic"),
    ]
)  # fmt: skip


def definition_of(plugin: Plugin) -> Definition:
    kind = {"sink": SINK, "source": SOURCE}.get(plugin.type)
    own: Definition = plugin.load().definition
    if kind is None:
        return own
    return COMMON + ERROR_SETTINGS + kind + own


def validate(
    plugin: Plugin, settings: Mapping[str, str], defaults: Mapping[str, str], worker: WorkerSettings | None = None
) -> dict[str, Any]:
    """`defaults` are the worker's converters; its policy decides about overrides of clients' settings."""
    definition = definition_of(plugin)
    found = definition.check(settings)
    errors = {each.setting.name: each.errors for each in found}
    if plugin.type == "sink":
        _check_topics(settings, errors)
    _check_class(settings, errors)
    found += _plugins(settings, errors)
    found += _overrides(settings, worker) if worker is not None else []
    if not any(errors.values()):
        try:
            plugin.load()(settings, name=settings.get("name", ""))
            from barnabas.pipelines.connect.plane.conversion import converter_of

            for side in ("key.converter", "value.converter"):
                converter_of({**defaults, **settings}, side)
        except Exception as error:
            name = getattr(error, "name", None)
            errors[name if name in errors else "connector.class"].append(str(error))
    free = [name for name in settings if not FREE.match(name)]
    for wrong, near in definition.mistyped(free, getattr(plugin.load(), "older_names", ())).items():
        found.append(_mistyped(wrong, near, settings[wrong]))
    groups = list(dict.fromkeys(each.setting.group for each in found if each.setting.group))
    return {
        "name": plugin.name,
        "error_count": sum(len(each.errors) for each in found),
        "groups": groups,
        "configs": [
            {"definition": describe(each.setting, index), "value": _value(each)} for index, each in enumerate(found)
        ],
    }


def _mistyped(wrong: str, near: str, value: str) -> Checked:
    return Checked(Setting(wrong, default=None), value, [f"{wrong} is unknown, is {near} meant?"])


def describe(setting: Setting, order: int = -1) -> dict[str, Any]:
    return {
        "name": setting.name,
        "type": setting.type,
        "required": setting.required,
        "default_value": None if setting.default in (None, REQUIRED) else _text(setting.default),
        "importance": setting.importance,
        "documentation": setting.doc,
        "group": setting.group,
        "width": setting.width,
        "display_name": setting.display or setting.name,
        "dependents": [],
        "order": order if setting.group else -1,
    }


def _value(checked: Checked) -> dict[str, Any]:
    hidden = checked.setting.type == "PASSWORD" and checked.value is not None
    return {
        "name": checked.setting.name,
        "value": "[hidden]" if hidden else None if checked.value is None else _text(checked.value),
        "recommended_values": list(checked.setting.recommended),
        "errors": checked.errors,
        "visible": True,
    }


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, list) else str(value)


def _check_topics(settings: Mapping[str, str], errors: dict[str, list[str]]) -> None:
    names, pattern = settings.get("topics", "").strip(), settings.get("topics.regex", "").strip()
    text = "Must configure one of topics or topics.regex" if not names and not pattern else ""
    if names and pattern:
        text = "topics and topics.regex are mutually exclusive options, but both are set."
    for name in ("topics", "topics.regex") if text else ():
        errors[name].append(str(ConfigError(text, name, settings.get(name, ""))) if not names and not pattern else text)
    letters = settings.get("errors.deadletterqueue.topic.name", "").strip()
    if letters and letters in [each.strip() for each in names.split(",")]:
        errors["topics"].append(
            f"The DLQ topic '{letters}' may not be included in the list of topics ('topics') consumed by the connector"
        )


def _check_class(settings: Mapping[str, str], errors: dict[str, list[str]]) -> None:
    for side in ("key.converter", "value.converter", "header.converter"):
        if settings.get(side) and not errors[side]:
            try:
                need(settings[side], "converter", "header_converter", setting=side)
            except ConfigError as error:
                errors[side].append(str(error))


def _overrides(settings: Mapping[str, str], worker: WorkerSettings) -> list[Checked]:
    found = []
    for name, value in settings.items():
        kind, middle, rest = name.partition(".override.")
        if not middle or kind not in ("producer", "consumer", "admin"):
            continue
        text = (
            f"The '{worker.override_policy}' policy does not allow '{rest}' to be overridden in the connector "
            "configuration."
        )
        found.append(Checked(Setting(name, default=None), value, [] if worker.may_override(rest) else [text]))
    return found


def _plugins(settings: Mapping[str, str], errors: dict[str, list[str]]) -> list[Checked]:
    """The settings of transformations and predicates, under their full names."""
    found: list[Checked] = []
    for kind, what in (("transforms", "transformation"), ("predicates", "predicate")):
        try:
            names = aliases(settings, kind)
        except ConfigError as error:
            errors[kind].append(str(error))
            continue
        for name in names:
            own = with_prefix(settings, f"{kind}.{name}.")
            type_setting = Setting(f"{kind}.{name}.type", "CLASS", group=f"{kind.title()}: {name}")
            try:
                if "type" not in own:
                    raise ConfigError(
                        f'Missing required configuration "{type_setting.name}" which has no default value.'
                    )
                plugin = need(own["type"], what, setting=type_setting.name)
            except ConfigError as error:
                found.append(Checked(type_setting, own.get("type"), [str(error)]))
                continue
            found.append(Checked(type_setting, own["type"], []))
            rest = {key: value for key, value in own.items() if key not in NOT_OWN}
            for each in plugin.load().definition.check(rest):
                full = Setting(f"{kind}.{name}.{each.setting.name}", each.setting.type, each.setting.default)
                found.append(Checked(full, each.value, each.errors))
            prefix = f"{kind}.{name}."
            for wrong, near in plugin.load().definition.mistyped(rest).items():
                found.append(_mistyped(prefix + wrong, prefix + near, rest[wrong]))
    if not any(each.errors for each in found) and not errors["transforms"]:
        try:
            make_chain(settings)
        except ConfigError as error:
            errors["transforms"].append(str(error))
    return found
