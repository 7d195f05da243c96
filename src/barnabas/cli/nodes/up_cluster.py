"""`barnabas up --brokers N`: a cluster on this machine by one command, and one Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from barnabas.cli.errors import UsageError
from barnabas.cli.nodes.cluster_view import ClusterState, lines, look
from barnabas.cli.nodes.local_cluster import EVERY_INTERFACE, ClusterPlan, KnownCluster, LocalCluster, free_ports
from barnabas.cli.services.companions import Companions, companions_of
from barnabas.cli.terminal import Screen, is_colourful

LOOK_EVERY_S = 1.0
READY_WITHIN_S = 60.0


def run(options: argparse.Namespace) -> int:
    cluster = LocalCluster(_planned(options))
    asked: list[int] = []  # the signals that ask for the end: an interrupt raised in a destructor is lost

    def interrupt(number: int, _: object) -> None:
        asked.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, interrupt)
    beside: Companions | None = None
    try:
        cluster.start()
        _wait_ready(cluster)
        if options.all:
            beside = _start_companions(cluster.plan)
        print("Ctrl-C stops them.", flush=True)
        _show(cluster, asked)
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the stop is under way
        print("Stopping ...", flush=True)
        if beside is not None:
            beside.stop()
        cluster.stop()
    return 0


def _planned(options: argparse.Namespace) -> ClusterPlan:
    """What can be refused is refused before there is a directory."""
    from barnabas.node.configuration import BrokerConfig, ConfigError
    from barnabas.node.configuration.sources import parse_overrides

    everywhere = options.host in EVERY_INTERFACE
    host = "localhost" if everywhere else options.host
    try:
        plan = ClusterPlan(
            directory=Path(options.data_dir).absolute(),
            brokers=options.brokers,
            controllers=options.controllers,
            racks=[each.strip() for each in (options.racks or "").split(",") if each.strip()],
            host=host,
            port=free_ports(options.host, options.brokers, first=options.port),
            every_interface=everywhere,
            overrides=parse_overrides(options.override),
        )
        supposed = KnownCluster("", {each: each for each in plan.controller_ids})
        config = BrokerConfig.from_properties(plan.properties(plan.broker_ids[0], supposed))
    except ConfigError as error:
        raise UsageError(str(error)) from error
    for warning in config.warnings:
        print(f"barnabas up: {warning}", file=sys.stderr)
    return plan


def _wait_ready(cluster: LocalCluster) -> None:
    plan, began_at = cluster.plan, time.monotonic()
    while True:
        for node_id in plan.node_ids:
            if not cluster.is_running(node_id):
                raise UsageError(f"Node {node_id} has not started: {cluster.last_words(node_id)}")
        state = look(plan.bootstrap_servers)
        if state is not None and state.in_service >= set(plan.broker_ids):
            break
        if time.monotonic() - began_at > READY_WITHIN_S:
            raise UsageError(f"The cluster was not ready within {READY_WITHIN_S:g} s; see {plan.directory}/node-*.log")
        time.sleep(0.05)
    print(f"Barnabas is up: {len(plan.node_ids)} nodes of cluster {cluster.known.cluster_id}")
    print(f"  clients     {plan.bootstrap_servers}")
    print(f"  data in     {plan.directory}", flush=True)


def _start_companions(plan: ClusterPlan) -> Companions:
    companions = companions_of(plan.bootstrap_servers, plan.directory)
    started = Companions(companions, logs=plan.directory)
    for companion in companions:
        print(f"  {companion.name:<15} {companion.url}, its log in {companion.log_name}", flush=True)
    return started


def _show(cluster: LocalCluster, asked: list[int]) -> None:
    """Live in a terminal; in a pipe a line whenever something has changed."""
    if sys.stdout.isatty():
        with Screen() as screen:
            while not asked:
                state = look(cluster.plan.bootstrap_servers)
                screen.draw(lines(cluster, state, screen.size[0], colourful=is_colourful(sys.stdout)))
                time.sleep(LOOK_EVERY_S)
    before = ""
    while not asked:
        now = _summary(cluster, look(cluster.plan.bootstrap_servers))
        if now != before:
            print(now, flush=True)
            before = now
        time.sleep(LOOK_EVERY_S)


def _summary(cluster: LocalCluster, state: ClusterState | None) -> str:
    down = [node_id for node_id in cluster.plan.node_ids if not cluster.is_running(node_id)]
    lost = f", nodes {down} are down" if down else ""
    if state is None:
        return f"no broker answers{lost}"
    leader = f"node {state.leader_id} leads epoch {state.epoch}" if state.leader_id >= 0 else "nobody leads"
    return f"{leader}, brokers {sorted(state.in_service)} are in service{lost}"
