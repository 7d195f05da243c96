"""`kafka-configs`: describes and alters the configuration of topics, brokers, groups, users, clients and addresses."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments.quotas import quota_line, quota_rate, scram_parts
from barnabas.cli.connect import BOOTSTRAP_CONTROLLER, CONNECTION, OUTPUT, connect, nearest, wants_json
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.output import print_json
from barnabas.client.admin import quotas
from barnabas.client.admin.configs import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    SOURCES,
    TOPIC,
    Config,
    alter_configs,
    configured_names,
    describe_configs,
    require_broker,
)
from barnabas.client.errors import Refused, UnsupportedByBroker

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

TYPES = ("topics", "clients", "users", "brokers", "ips", "client-metrics", "groups", "broker-loggers")
RESOURCES = {
    "topics": TOPIC,
    "brokers": BROKER,
    "broker-loggers": BROKER_LOGGER,
    "client-metrics": CLIENT_METRICS,
    "groups": GROUP,
}
# What counts as dynamic configuration of each.
DYNAMIC = {"topics": 1, "brokers": 2, "broker-loggers": 6, "client-metrics": 7, "groups": 8}
SHORTCUTS = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
    "client-metrics": "client-metrics",
    "group": "groups",
}
DEFAULTS = {"client-defaults": "clients", "user-defaults": "users", "broker-defaults": "brokers", "ip-defaults": "ips"}
SET, DELETE = 0, 1
MISSING = "Either --bootstrap-server or --bootstrap-controller must be specified."
PAIRS = (
    'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val" or  '
    '"key=[val1,val2]" to group values which contain commas.'
)

PARSER = Parser(
    name="configs",
    summary="Describes and alters the configuration of topics, brokers, groups, users, clients and addresses.",
    options=(
        *CONNECTION,
        BOOTSTRAP_CONTROLLER,
        OUTPUT,
        option("--describe", help="Describe configuration."),
        option("--alter", help="Alter configuration."),
        option("--all", help="With --describe: what is set elsewhere or by default too."),
        option("--entity-type", takes="type", repeated=True, help=f"What it belongs to: {', '.join(TYPES)}."),
        option("--entity-name", takes="name", repeated=True, help="The name of what it belongs to."),
        option("--entity-default", help="The default of all users, clients, brokers or addresses."),
        option("--add-config", takes="k=v,k=[v,v]", help="What to set; brackets around values with commas."),
        option("--add-config-file", takes="file", help="A properties file with what to set.", completes="file"),
        option("--delete-config", takes="k,k", repeated=True, help="What to remove."),
        option("--topic", takes="topic", repeated=True, help="The topic.", completes="topic"),
        option("--client", takes="id", repeated=True, help="The client's id."),
        option("--client-defaults", help="All clients."),
        option("--user", takes="name", repeated=True, help="The user."),
        option("--user-defaults", help="All users."),
        option("--broker", takes="id", repeated=True, help="The broker's id.", completes="broker"),
        option("--broker-defaults", help="All brokers."),
        option("--broker-logger", takes="id", repeated=True, help="The broker's id, for its log levels."),
        option("--ip", takes="address", repeated=True, help="The address."),
        option("--ip-defaults", help="All addresses."),
        option("--client-metrics", takes="name", repeated=True, help="The subscription to clients' metrics."),
        option("--group", takes="group", repeated=True, help="The group.", completes="group"),
        option("--force", help="Of older versions, without effect.", hidden=True),
    ),
)


def run(parsed: Parsed) -> int:
    if ("describe" in parsed) == ("alter" in parsed):
        raise UsageError("Command must include exactly one action: --describe, --alter")
    parsed.refuse("describe", "add-config", "add-config-file", "delete-config")
    entity = _entity(parsed)
    _check_entity(parsed, entity)
    try:
        with connect(parsed, missing=MISSING) as cluster:
            if "alter" in parsed:
                _alter(cluster, parsed, entity)
            else:
                _describe(cluster, parsed, entity)
    except Refused as refusal:
        raise ToolFailed(f"Error while executing config command: {refusal.message}") from None
    return 0


def _entity(parsed: Parsed) -> list[tuple[str, str | None]]:
    """Types with their names: "" is the default, None is not given."""
    types = parsed.texts("entity-type")
    names: list[str | None] = [*parsed.texts("entity-name"), *([""] if "entity-default" in parsed else [])]
    names += [None] * (len(types) - len(names))
    entity = list(zip(types, names, strict=False))
    for name, kind in SHORTCUTS.items():
        entity += [(kind, value) for value in parsed.texts(name)]
    entity += [(kind, "") for name, kind in DEFAULTS.items() if name in parsed]
    return entity


def _check_entity(parsed: Parsed, entity: list[tuple[str, str | None]]) -> None:
    types = [kind for kind, _ in entity]
    if not types:
        raise UsageError("At least one entity type must be specified")
    if twice := [kind for kind, count in Counter(types).items() if count > 1]:
        raise UsageError(f"Duplicate entity type(s) specified: {','.join(twice)}")
    for kind in types:
        if kind not in TYPES:
            raise UsageError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(TYPES)} with a "
                "--bootstrap-server or --bootstrap-controller argument"
            )
    if len(types) > 1 and set(types) != {"users", "clients"}:
        raise UsageError("Only 'users' and 'clients' entity types may be specified together")
    for kind, name in entity:
        _check_name(kind, name)
        if "entity-default" in parsed and "describe" in parsed and kind in RESOURCES and kind != "brokers":
            raise UsageError(f"--entity-default must not be specified with --describe of {kind}")
    if "alter" in parsed:
        if "add-config" in parsed and "add-config-file" in parsed:
            raise UsageError("Only one of --add-config or --add-config-file must be specified")
        _check_names_to_alter(entity)
        if not {"add-config", "add-config-file", "delete-config"} & set(parsed.given()):
            raise UsageError(
                "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
            )


def _check_names_to_alter(entity: list[tuple[str, str | None]]) -> None:
    unnamed = [kind for kind, name in entity if name is None]
    kind, name = entity[0]
    if kind in RESOURCES and kind != "brokers" and not name:
        raise UsageError(f"An entity name must be specified with --alter of {kind}")
    if len(unnamed) == len(entity):
        raise UsageError(
            "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
        )
    if unnamed:
        raise UsageError("An entity name must be specified for every entity type")


def _check_name(kind: str, name: str | None) -> None:
    if kind in ("brokers", "broker-loggers") and name and not name.lstrip("-").isdecimal():
        raise UsageError(f"The entity name for {kind} must be a valid integer broker id, but it is: {name}")
    if kind == "ips" and name and not _resolves(name):
        raise UsageError(f"The entity name for {kind} must be a valid IP or resolvable host, but it is: {name}")


def _resolves(name: str) -> bool:
    import socket

    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True


def _to_add(parsed: Parsed) -> dict[str, str]:
    configs: dict[str, str] = {}
    if path := parsed.text("add-config-file"):
        from barnabas.client.settings import read_properties

        configs |= read_properties(path)
    text = parsed.text("add-config")
    if text is not None:
        outside_brackets = r"(?=[^\]]*(?:\[|$))"
        for pair in re.split(f",{outside_brackets}", text):
            parts = re.split(rf"\s*=\s*{outside_brackets}", pair)
            if len(parts) != 2:
                raise UsageError(PAIRS)
            configs[parts[0].strip()] = re.sub(r"\[?\]?", "", parts[1]).strip()
    for key in configs:
        if not re.fullmatch(r"[a-zA-Z0-9._-]*", key):
            raise UsageError(f"Invalid character found for config key: {key}")
    return configs


def _alter(cluster: Cluster, parsed: Parsed, entity: list[tuple[str, str | None]]) -> None:
    adding = _to_add(parsed)
    deleting = [key.strip() for text in parsed.texts("delete-config") for key in text.split(",")]
    kind, name = entity[0]
    if kind in RESOURCES:
        _alter_resource(cluster, kind, name or "", adding, deleting)
    else:
        _alter_client(cluster, entity, adding, deleting)
    if name:
        print(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        print(f"Completed updating default config for {kind} in the cluster.")


def _alter_resource(cluster: Cluster, kind: str, name: str, adding: dict[str, str], deleting: list[str]) -> None:
    node_id = int(name) if kind in ("brokers", "broker-loggers") and name else None
    if node_id is not None:
        require_broker(cluster, node_id)
    if kind == "broker-loggers":
        loggers = {config.name for config in _configs(cluster, kind, name)}
        if unknown := [key for key in (*deleting, *adding) if key not in loggers]:
            raise UsageError(f"Invalid broker logger(s): {','.join(unknown)}")
    if twice := adding.keys() & set(deleting):
        raise UsageError(f"A config can be added or deleted, and not both: {', '.join(sorted(twice))}")
    alter_configs(cluster, RESOURCES[kind], {name: {**adding, **dict.fromkeys(deleting)}})


def _alter_client(
    cluster: Cluster, entity: list[tuple[str, str | None]], adding: dict[str, str], deleting: list[str]
) -> None:
    types = [kind for kind, _ in entity]
    keys: tuple[str, ...] = quotas.IP_KEYS if types == ["ips"] else quotas.CLIENT_KEYS
    scram = types == ["users"] and bool({*adding, *deleting} & set(quotas.MECHANISMS))
    known = (*keys, *quotas.MECHANISMS) if types == ["users"] else keys
    for verb, given in (("added", list(adding)), ("deleted", deleting)):
        if unknown := [key for key in given if key not in known]:
            what, names = "quota", f"Set({', '.join(unknown)})"
            if types == ["ips"]:
                what, names = "connection quota", ",".join(unknown)
            elif types == ["users"]:
                what = "quota and SCRAM credential"
            raise UsageError(
                f"Only {what} configs can be {verb} for '{types[0]}' using --bootstrap-server. "
                f"Unexpected config names: {names}"
            )
    if not scram:
        held = {key for quota in quotas.describe_quotas(cluster, entity) for key in quota.values}
        if unknown := [key for key in deleting if key not in held]:
            raise UsageError(f"Invalid config(s): {','.join(unknown)}")
        rates = {key: quota_rate(key, value) for key, value in adding.items()}
        quotas.alter_quotas(cluster, entity, rates, deleting)
        return
    if not entity[0][1]:
        raise UsageError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
            "--bootstrap-server."
        )
    if {*adding, *deleting} & set(keys):
        raise UsageError(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server."
        )
    credentials = {mechanism: scram_parts(mechanism, text) for mechanism, text in adding.items()}
    quotas.alter_scram(cluster, entity[0][1], credentials, deleting)


def _describe(cluster: Cluster, parsed: Parsed, entity: list[tuple[str, str | None]]) -> None:
    kind, name = entity[0]
    if kind not in RESOURCES:
        _describe_client(cluster, parsed, entity)
        return
    if name is not None and not _exists(cluster, kind, name):
        return
    names = [name] if name is not None else _names(cluster, kind)
    everything = "all" in parsed
    shown: list[tuple[str, list[Config]]] = []
    for each in names:
        configs = _configs(cluster, kind, each)
        source = 3 if kind == "brokers" and each == "" else DYNAMIC[kind]
        shown.append((each, configs if everything else [config for config in configs if config.source == source]))
    if wants_json(parsed):
        print_json([{"type": kind[:-1], "name": each, "configs": _as_json(configs)} for each, configs in shown])
        return
    for each, configs in shown:
        if each == "" and kind == "brokers":
            print("Default configs for brokers in the cluster are:")
        else:
            print(f"{'All' if everything else 'Dynamic'} configs for {kind[:-1]} {each} are:")
        for config in configs:
            print(f"  {_line(config)}")


def _line(config: Config) -> str:
    synonyms = ", ".join(f"{SOURCES.get(source, source)}:{name}={value}" for name, value, source in config.synonyms)
    sensitive = "true" if config.is_sensitive else "false"
    return f"{config.name}={_java(config.value)} sensitive={sensitive} synonyms={{{synonyms.replace('None', 'null')}}}"


def _java(value: str | None) -> str:
    return "null" if value is None else value


def _as_json(configs: list[Config]) -> list[dict[str, Any]]:
    return [
        {
            "name": config.name,
            "value": config.value,
            "source": SOURCES.get(config.source, config.source),
            "sensitive": config.is_sensitive,
            "readOnly": config.is_read_only,
            "synonyms": [
                {"name": name, "value": value, "source": SOURCES.get(source, source)}
                for name, value, source in config.synonyms
            ],
        }
        for config in configs
    ]


def _configs(cluster: Cluster, kind: str, name: str) -> list[Config]:
    node_id = int(name) if kind in ("brokers", "broker-loggers") and name else None
    return describe_configs(cluster, RESOURCES[kind], [name], node_id=node_id)[name]


def _exists(cluster: Cluster, kind: str, name: str) -> bool:
    """What is not there is told of on stdout and is no failure."""
    if kind == "topics" and not name:
        raise UsageError("Topic name is invalid: the empty string is not allowed")
    if name == "" and kind == "brokers":
        return True
    known = _names(cluster, kind)
    if kind == "groups":
        from barnabas.client.admin.groups import list_groups

        known += [listing.group for listing in list_groups(cluster)]
    if name in known:
        return True
    print(f"The {kind[:-1]} '{name}' doesn't exist and doesn't have dynamic config.{nearest(name, known)}")
    return False


def _names(cluster: Cluster, kind: str) -> list[str]:
    if kind == "topics":
        return sorted(cluster.metadata().topics)
    if kind in ("brokers", "broker-loggers"):
        brokers = [str(node_id) for node_id in sorted(cluster.metadata([]).brokers)]
        return [*brokers, ""] if kind == "brokers" else brokers
    try:
        return configured_names(cluster, RESOURCES[kind])
    except UnsupportedByBroker:
        if kind == "groups":
            return []
        raise


def _describe_client(cluster: Cluster, parsed: Parsed, entity: list[tuple[str, str | None]]) -> None:
    found = quotas.describe_quotas(cluster, entity)
    credentials: list[tuple[str, list[tuple[str, int]]]] = []
    kind, name = entity[0]
    if len(entity) == 1 and kind == "users" and name != "":
        credentials = quotas.describe_scram(cluster, name)
    if wants_json(parsed):
        print_json(
            {
                "quotas": [{"entity": dict(quota.entity), "values": quota.values} for quota in found],
                "credentials": [{"user": user, "iterations": dict(infos)} for user, infos in credentials],
            }
        )
        return
    for quota in found:
        print(quota_line(quota))
    for user, infos in credentials:
        listed = ", ".join(f"{mechanism}=iterations={iterations}" for mechanism, iterations in infos)
        print(f"SCRAM credential configs for user-principal '{user}' are {listed}")
