"""`kafka-client-metrics`: subscriptions to the metrics of clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cli.connect import CONNECTION, OUTPUT, connect, wants_json
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.output import print_json
from barnabas.client.admin.configs import CLIENT_METRICS, alter_configs, configured_names, describe_configs
from barnabas.client.errors import Refused
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

ACTIONS = ("alter", "delete", "describe", "list")
KEYS = {"metrics": "metrics", "match": "match", "interval": "interval.ms"}
SET, DELETE = 0, 1

PARSER = Parser(
    name="client-metrics",
    summary="Manages subscriptions to the metrics of clients.",
    options=(
        *CONNECTION,
        OUTPUT,
        option("--alter", help="Make or change a subscription."),
        option("--delete", help="Delete a subscription."),
        option("--describe", help="Describe subscriptions."),
        option("--list", help="List subscriptions."),
        option("--name", takes="name", help="The subscription's name."),
        option("--generate-name", help="Give the new subscription a random name."),
        option("--interval", takes="ms", help="How often clients push; nothing for the default."),
        option("--match", takes="k=v,k=v", help="Which clients: client_id, client_software_name and others."),
        option("--metrics", takes="m,m", help="Beginnings of the metrics' names."),
    ),
)


def run(parsed: Parsed) -> int:
    if sum(action in parsed for action in ACTIONS) != 1:
        raise UsageError("Command must include exactly one action: --alter, --delete, --describe or --list.")
    if "alter" in parsed and ("name" in parsed) == ("generate-name" in parsed):
        raise UsageError("One of --name or --generate-name must be specified with --alter.")
    if "delete" in parsed and "name" not in parsed:
        raise UsageError("A client metrics resource name must be specified with --delete.")
    try:
        with connect(parsed) as cluster:
            {"alter": _alter, "delete": _delete, "describe": _describe, "list": _list}[
                next(action for action in ACTIONS if action in parsed)
            ](cluster, parsed)
    except Refused as refusal:
        raise ToolFailed(f"Error while executing client metrics command: {refusal.message}") from None
    return 0


def _alter(cluster: Cluster, parsed: Parsed) -> None:
    name = parsed.text("name") or str(Uuid.random())
    changes = {key: parsed.text(given) or None for given, key in KEYS.items() if given in parsed}
    alter_configs(cluster, CLIENT_METRICS, {name: changes})
    print(f"Altered client metrics config for {name}.")


def _delete(cluster: Cluster, parsed: Parsed) -> None:
    name = parsed.text("name") or ""
    alter_configs(cluster, CLIENT_METRICS, {name: dict.fromkeys(KEYS.values())})
    print(f"Deleted client metrics config for {name}.")


def _list(cluster: Cluster, parsed: Parsed) -> None:
    names = configured_names(cluster, CLIENT_METRICS)
    if wants_json(parsed):
        print_json(names)
    elif names:
        print("\n".join(names))


def _describe(cluster: Cluster, parsed: Parsed) -> None:
    names = configured_names(cluster, CLIENT_METRICS)
    wanted = parsed.text("name")
    if wanted is not None and wanted not in names:
        print(f"The client metric resource {wanted} doesn't exist and doesn't have dynamic config.")
        return
    shown = [wanted] if wanted is not None else names
    found = {name: describe_configs(cluster, CLIENT_METRICS, [name], synonyms=False)[name] for name in shown}
    if wants_json(parsed):
        print_json({name: {config.name: config.value for config in configs} for name, configs in found.items()})
        return
    for name, configs in found.items():
        print(f"Client metrics configs for {name} are:")
        for config in configs:
            print(f"  {config.name}={config.value}")
