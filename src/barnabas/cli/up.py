"""`barnabas up`: a node in the foreground, for people."""

from __future__ import annotations

import argparse
from pathlib import Path

from barnabas.cli.serve import serve

DEFAULT_DATA_DIR = "barnabas-data"


def run(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="barnabas up", description="Starts a node in the foreground.")
    parser.add_argument("--data-dir", default=DEFAULT_DATA_DIR, help=f"where it keeps its data (./{DEFAULT_DATA_DIR})")
    parser.add_argument("--host", default="localhost", help="the address to listen on and to advertise (localhost)")
    parser.add_argument("--port", type=int, default=9092, help="the port for clients (9092), 0 for a free one")
    parser.add_argument(
        "--controller-port", type=int, help="the port of the quorum (the one after the clients' port), 0 for a free one"
    )
    parser.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="any key of Kafka's server.properties"
    )
    options = parser.parse_args(arguments)
    controller_port = options.controller_port
    if controller_port is None:
        controller_port = options.port + 1 if options.port else 0
    properties = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://{options.host}:{options.port},CONTROLLER://{options.host}:{controller_port}",
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
