"""`barnabas up`: a node in the foreground, for people."""

from __future__ import annotations

import argparse
from pathlib import Path

from barnabas.cli.nodes.serve import serve

DEFAULT_DATA_DIR = "barnabas-data"
EVERY_INTERFACE = ("0.0.0.0", "::", "*")
PORT_MAX = 65535


def run(arguments: list[str]) -> int:
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
        "--controller-port", type=_port, help="the port of the quorum (the one after the clients' port), 0 for any"
    )
    parser.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="any key of Kafka's server.properties"
    )
    options = parser.parse_args(arguments)
    host = "" if options.host in EVERY_INTERFACE else options.host
    controller_port = options.controller_port
    if controller_port is None:
        controller_port = options.port + 1 if 0 < options.port < PORT_MAX else 0
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
    }
    from barnabas.node.configuration import BrokerConfig

    return serve(
        lambda overrides: BrokerConfig.from_properties(properties | overrides), options.override, friendly=True
    )


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not a port from 0 to {PORT_MAX}")
    return int(text)
