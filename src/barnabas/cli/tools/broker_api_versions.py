"""`kafka-broker-api-versions`: the APIs and versions each broker offers, and what of them this program speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cli.connect import CONNECTION, OUTPUT, connect, wants_json
from barnabas.cli.options import Parsed, Parser
from barnabas.cli.output import print_json
from barnabas.client.errors import ClientError
from barnabas.client.settings import show_address

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

# Brokers offer these only where somebody receives the metrics of clients.
TELEMETRY = {71: "GetTelemetrySubscriptions", 72: "PushTelemetry"}

PARSER = Parser(
    name="broker-api-versions",
    summary="Lists the APIs and versions each broker offers.",
    options=(*CONNECTION, OUTPUT),
)


def run(parsed: Parsed) -> int:
    from barnabas.wire.apis import APIS

    names = {key: "".join(word.capitalize() for word in api.name.split("_")) for key, api in APIS.items() if api.broker}
    names |= TELEMETRY
    ours = {key: api.broker for key, api in APIS.items() if api.broker}
    with connect(parsed) as cluster:
        brokers = list(cluster.metadata([]).brokers.values())
        offers = {broker.id: _offer(cluster, broker.id) for broker in brokers}
    if wants_json(parsed):
        print_json(
            [
                {
                    "id": broker.id,
                    "host": broker.host,
                    "port": broker.port,
                    "rack": broker.rack,
                    "apis": {
                        names.get(key, f"UNKNOWN({key})"): {"key": key, "min": low, "max": high}
                        for key, (low, high) in sorted(offers[broker.id].items())
                    },
                }
                for broker in brokers
            ]
        )
        return 0
    for broker in brokers:
        address = show_address((broker.host, broker.port))
        rack = "null" if broker.rack is None else broker.rack
        lines = []
        for key in sorted({*names, *offers[broker.id]}):
            name = names.get(key, "UNKNOWN")
            lines.append(f"\t{name}({key}): {_range(offers[broker.id].get(key), ours.get(key))}")
        print(f"{address} (id: {broker.id} rack: {rack} isFenced: false) -> (")
        print(",\n".join(lines))
        print(")")
    return 0


def _offer(cluster: Cluster, node_id: int) -> dict[int, tuple[int, int]]:
    try:
        return dict(cluster.connection(node_id).versions)
    except ClientError:
        return {}


def _range(offered: tuple[int, int] | None, known: tuple[int, int] | None) -> str:
    if offered is None:
        return "UNSUPPORTED"
    low, high = offered
    text = f"{low}" if low == high else f"{low} to {high}"
    if known is None or max(low, known[0]) > min(high, known[1]):
        return f"{text} [unusable: node too {'new' if known is None or low > known[1] else 'old'}]"
    return f"{text} [usable: {min(high, known[1])}]"
