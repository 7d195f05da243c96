"""`barnabas up`: a node in the foreground, or a cluster of several, for people."""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from barnabas.cli.errors import UsageError
from barnabas.cli.nodes.local_cluster import CLUSTER_FILE, EVERY_INTERFACE, PORT_MAX, free_ports
from barnabas.cli.nodes.secure import security_directory
from barnabas.cli.nodes.serve import serve

DEFAULT_DATA_DIR = "barnabas-data"


def run(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.secure and (options.brokers > 1 or options.controllers or options.all):
        raise UsageError("--secure is for a single node without the services beside it.")
    if options.brokers > 1 or options.controllers:
        from barnabas.cli.nodes.up_cluster import run as run_cluster

        return run_cluster(options)
    if options.racks:
        raise UsageError("--racks is for a cluster: say with --brokers how many nodes it has.")
    if (Path(options.data_dir) / CLUSTER_FILE).exists():
        raise UsageError(f"{options.data_dir} holds a cluster of several nodes: start it with --brokers.")
    return _run_node(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="barnabas up", description="Starts a node in the foreground.")
    parser.add_argument("--data-dir", default=DEFAULT_DATA_DIR, help=f"where it keeps its data (./{DEFAULT_DATA_DIR})")
    parser.add_argument(
        "--host",
        default="localhost",
        help="the address to listen on and to advertise (localhost); with 0.0.0.0 it listens on every interface and "
        "advertises the machine's name",
    )
    parser.add_argument("--port", type=_port, default=9092, help="the port for clients (9092), 0 for a free one")
    parser.add_argument(
        "--controller-port",
        type=_port,
        help="the port of the quorum (the one after the clients' port, or any if that is taken), 0 for any",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="the schema registry beside it, on port 8081, the REST proxy, on 8082, Connect, on 8083, and SQL, on 8088",
    )
    parser.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="any key of Kafka's server.properties"
    )
    parser.add_argument("--brokers", type=_at_least(1), default=1, help="a cluster of so many brokers, each a process")
    parser.add_argument(
        "--controllers", type=_at_least(0), default=0, help="controllers of their own beside the brokers"
    )
    parser.add_argument(
        "--secure", action="store_true", help="with TLS, SCRAM and access control; a file tells what clients need"
    )
    parser.add_argument("--racks", help="the brokers' racks, in turn: a,b,c")
    return parser


def _run_node(options: argparse.Namespace) -> int:
    host = "" if options.host in EVERY_INTERFACE else options.host
    if options.secure and not options.port:
        options.port = free_ports(options.host, 1, first=0)  # clients are told of it before the node is up
    controller_port = options.controller_port
    if controller_port is None:
        controller_port = options.port + 1 if _is_free(options.host, options.port + 1) else 0
    properties = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://{host}:{options.port},CONTROLLER://{host}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(Path(options.data_dir).absolute()),
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }
    if security_directory(Path(options.data_dir).absolute()).exists() and not options.secure:
        told = f"{options.data_dir} was started with --secure before; without it anybody may read and write."
        print(f"barnabas up: {told}", file=sys.stderr)
    if options.secure:
        properties = _secured(properties, options.host, options.port)
    from barnabas.node.configuration import BrokerConfig

    return serve(
        lambda overrides: BrokerConfig.from_properties(properties | overrides),
        options.override,
        friendly=True,
        companions=options.all,
    )


def _secured(properties: dict[str, str], host: str, port: int) -> dict[str, str]:
    from barnabas.cli.nodes.secure import secured
    from barnabas.node.configuration import ConfigError

    names = [socket.gethostname()] if host in EVERY_INTERFACE else [host]
    hosts = list(dict.fromkeys([*names, "localhost", "127.0.0.1", "::1"]))
    try:
        properties, client_file = secured(properties, hosts)
    except (ConfigError, OSError) as error:
        raise UsageError(str(error)) from error
    print(f"Clients need what is in {client_file}, for instance:")
    address = f"{'localhost' if host in EVERY_INTERFACE else host}:{port}"
    print(f"  kafka-topics --bootstrap-server {address} --command-config {client_file} --list")
    return properties


def _is_free(host: str, port: int) -> bool:
    if not 1 < port <= PORT_MAX:
        return False
    try:
        with socket.create_server((host, port)):
            return True
    except OSError:
        return False


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not a port from 0 to {PORT_MAX}")
    return int(text)


def _at_least(least: int) -> Callable[[str], int]:
    def count(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is no number from {least} on")
        return int(text)

    return count
