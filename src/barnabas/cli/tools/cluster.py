"""`kafka-cluster`: the cluster's id and endpoints; takes a broker off the cluster's list.

Beyond Kafka: `drain` moves all replicas off a broker, `roll` restarts brokers one after the other.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from barnabas.cli.connect import BOOTSTRAP_CONTROLLER, COMMAND_CONFIG, OUTPUT, connect, wants_json
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Option, Parsed, Parser, Positional, option
from barnabas.cli.output import print_json
from barnabas.client.admin.refusals import check
from barnabas.client.errors import UnsupportedByBroker

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.wire.messages.describe_cluster import DescribeClusterResponse

MISSING = "one of the arguments --bootstrap-server/-b --bootstrap-controller/-C is required"
CONNECTION: tuple[Option, ...] = (
    option("--bootstrap-server", "--bootstrap-servers", "-b", takes="host:port,...", help="The brokers to ask first."),
    option("--bootstrap-controller", "-C", takes="host:port,...", help=BOOTSTRAP_CONTROLLER.help),
    option("--command-config", "--config", "-c", takes="file", help=COMMAND_CONFIG.help, completes="file"),
)

PARSER = Parser(
    name="cluster",
    summary="Tells the cluster's id and endpoints, and unregisters brokers.",
    options=(*CONNECTION, OUTPUT),
    commands=(
        Parser(name="cluster-id", summary="Print the cluster's id."),
        Parser(
            name="unregister",
            summary="Forget a broker that will not come back.",
            options=(option("--id", "-i", takes="id", kind=int, help="The broker's id."),),
        ),
        Parser(
            name="list-endpoints",
            summary="List the brokers, or the controllers, and where they listen.",
            options=(option("--include-fenced-brokers", help="With brokers that are not up."),),
        ),
        Parser(
            name="drain",
            summary="Move all replicas off a broker, and end when it holds none.",
            positionals=(Positional(name="id", help="The broker's id.", completes="broker"),),
            beyond_kafka=True,
        ),
        Parser(
            name="roll",
            summary="Restart the brokers one after the other, each when all replicas are in sync.",
            options=(
                option("--command", takes="command", help="Restarts a broker; {id} in it is the broker's id."),
                option("--timeout", takes="seconds", kind=float, default=600.0, help="How long to wait for a broker."),
            ),
            beyond_kafka=True,
        ),
    ),
)


def run(parsed: Parsed) -> int:
    if parsed.command == "unregister" and "id" not in parsed:
        raise UsageError("argument --id/-i is required")
    drained = _broker_to_drain(parsed) if parsed.command == "drain" else -1
    with connect(parsed, missing=MISSING) as cluster:
        if parsed.command == "cluster-id":
            _print_id(cluster, parsed)
        elif parsed.command == "unregister":
            _unregister(cluster, parsed.number("id") or 0)
        elif parsed.command == "drain":
            _drain(cluster, drained)
        elif parsed.command == "roll":
            _roll(cluster, parsed)
        else:
            _list_endpoints(cluster, parsed)
    return 0


def _broker_to_drain(parsed: Parsed) -> int:
    if "bootstrap-controller" in parsed:
        raise UsageError("drain asks brokers: use --bootstrap-server")
    if len(parsed.rest) != 1 or not parsed.rest[0].isdecimal():
        raise UsageError("drain takes the id of one broker, a number")
    return int(parsed.rest[0])


def _drain(cluster: Cluster, broker_id: int) -> None:
    from barnabas.cli.cluster_drain import drain

    drain(cluster, broker_id)


def _roll(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.cli.cluster_roll import roll

    if "bootstrap-controller" in parsed:
        raise UsageError("roll asks brokers: use --bootstrap-server")
    timeout_s = float(parsed.value("timeout") or 600.0)
    roll(cluster, parsed.text("command"), timeout_s)


def _describe(cluster: Cluster, parsed: Parsed, *, fenced: bool = False) -> DescribeClusterResponse:
    from barnabas.wire.messages.describe_cluster import DescribeClusterRequest

    kind = 2 if "bootstrap-controller" in parsed else 1
    answer = cluster.ask(DescribeClusterRequest(endpoint_type=kind, include_fenced_brokers=fenced))
    check(answer.error_code, answer.error_message)
    described: DescribeClusterResponse = answer
    return described


def _print_id(cluster: Cluster, parsed: Parsed) -> None:
    cluster_id = _describe(cluster, parsed).cluster_id
    if wants_json(parsed):
        print_json({"clusterId": cluster_id})
    else:
        print(f"Cluster ID: {cluster_id}")


def _unregister(cluster: Cluster, broker_id: int) -> None:
    from barnabas.wire.messages.unregister_broker import UnregisterBrokerRequest

    try:
        answer = cluster.ask_controller(UnregisterBrokerRequest(broker_id=broker_id))
    except UnsupportedByBroker:
        print("The target cluster does not support the broker unregistration API.")
        return
    if answer.error_code:
        raise ToolFailed(answer.error_message or f"Broker {broker_id} cannot be unregistered.")
    print(f"Broker {broker_id} is no longer registered.")


def _list_endpoints(cluster: Cluster, parsed: Parsed) -> None:
    controllers = "bootstrap-controller" in parsed
    fenced = "include-fenced-brokers" in parsed
    if controllers and fenced:
        raise UsageError("The option --include-fenced-brokers is only supported with --bootstrap-server option")
    nodes = sorted(_describe(cluster, parsed, fenced=fenced).brokers, key=lambda node: node.broker_id)
    kind = "controller" if controllers else "broker"
    if wants_json(parsed):
        print_json(
            [
                {
                    "id": node.broker_id,
                    "host": node.host,
                    "port": node.port,
                    "rack": node.rack,
                    "state": "fenced" if node.is_fenced else "unfenced",
                    "endpointType": kind,
                }
                for node in nodes
            ]
        )
        return
    width = max((len(node.host) for node in nodes), default=10)
    columns = ("ID", "HOST", "PORT", "RACK") if controllers else ("ID", "HOST", "PORT", "RACK", "STATE")
    widths = (10, width, 10, 10, 10)
    rows = [(*columns, "ENDPOINT_TYPE")]
    for node in nodes:
        state = () if controllers else ("fenced" if node.is_fenced else "unfenced",)
        rows.append((str(node.broker_id), node.host, str(node.port), str(node.rack or "null"), *state, kind))
    for row in rows:
        sys.stdout.write(" ".join(f"{cell:<{size}}" for cell, size in zip(row, widths, strict=False)))
        sys.stdout.write(f" {row[-1]}\n" if len(row) > len(widths) else "\n")
