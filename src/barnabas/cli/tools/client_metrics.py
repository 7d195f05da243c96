"""`kafka-client-metrics`: subscriptions to the metrics of clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cli.admin.descriptions import CLIENT_METRICS, describe_configs
from barnabas.cli.connect import CONNECTION, OUTPUT, connect, wants_json
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.output import print_json
from barnabas.cli.refusals import check
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


def _change(cluster: Cluster, name: str, changes: dict[str, str]) -> None:
    from barnabas.wire.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    operations = [
        AlterableConfig(name=key, config_operation=SET if value else DELETE, value=value or None)
        for key, value in changes.items()
    ]
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=operations)
    for response in cluster.ask_controller(IncrementalAlterConfigsRequest(resources=[resource])).responses:
        check(response.error_code, response.error_message)


def _alter(cluster: Cluster, parsed: Parsed) -> None:
    name = parsed.text("name") or str(Uuid.random())
    _change(cluster, name, {key: parsed.text(given) or "" for given, key in KEYS.items() if given in parsed})
    print(f"Altered client metrics config for {name}.")


def _delete(cluster: Cluster, parsed: Parsed) -> None:
    name = parsed.text("name") or ""
    _change(cluster, name, dict.fromkeys(KEYS.values(), ""))
    print(f"Deleted client metrics config for {name}.")


def _names(cluster: Cluster) -> list[str]:
    from barnabas.wire.messages.list_config_resources import ListConfigResourcesRequest

    answer = cluster.ask(ListConfigResourcesRequest(resource_types=[CLIENT_METRICS]))
    check(answer.error_code)
    return sorted(each.resource_name for each in answer.config_resources if each.resource_type == CLIENT_METRICS)


def _list(cluster: Cluster, parsed: Parsed) -> None:
    names = _names(cluster)
    if wants_json(parsed):
        print_json(names)
    elif names:
        print("\n".join(names))


def _describe(cluster: Cluster, parsed: Parsed) -> None:
    names = _names(cluster)
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
