"""What `barnabas up --brokers N` shows: who leads the quorum, which brokers are in service, what is in sync."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.cli.terminal import cut, paint
from barnabas.client.errors import ClientError

if TYPE_CHECKING:
    from barnabas.cli.nodes.local_cluster import LocalCluster


@dataclass(slots=True)
class ClusterState:
    leader_id: int = -1
    epoch: int = -1
    in_service: set[int] = field(default_factory=set)
    led: Counter[int] = field(default_factory=Counter)
    in_sync: Counter[int] = field(default_factory=Counter)
    replicas: Counter[int] = field(default_factory=Counter)
    topics: int = 0
    leaderless: int = 0


def look(bootstrap_servers: str) -> ClusterState | None:
    """None while no broker answers."""
    from barnabas.client.cluster import Cluster
    from barnabas.client.settings import ClientSettings
    from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
    from barnabas.wire.messages.metadata import MetadataRequest

    settings = ClientSettings.from_properties(
        {"bootstrap.servers": bootstrap_servers, "default.api.timeout.ms": "1500", "request.timeout.ms": "1500"}
    )
    state = ClusterState()
    quorum = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    try:
        with Cluster(settings) as cluster:
            metadata = cluster.ask(MetadataRequest(topics=None))
            state.in_service = {broker.node_id for broker in metadata.brokers}
            for topic in metadata.topics:
                state.topics += not topic.is_internal
                for partition in topic.partitions:
                    state.led[partition.leader_id] += 1
                    state.leaderless += partition.leader_id < 0
                    state.replicas.update(partition.replica_nodes)
                    state.in_sync.update(partition.isr_nodes)
            answer = cluster.ask_controller(DescribeQuorumRequest(topics=[quorum]))
            if answer.topics and not answer.topics[0].partitions[0].error_code:
                found = answer.topics[0].partitions[0]
                state.leader_id, state.epoch = found.leader_id, found.leader_epoch
    except ClientError:
        return state if state.in_service else None
    return state


def lines(cluster: LocalCluster, state: ClusterState | None, width: int, *, colourful: bool) -> list[str]:
    plan = cluster.plan
    title = f"Barnabas: cluster {cluster.known.cluster_id}, clients at {plan.bootstrap_servers}"
    shown = [paint(cut(title, width), "bold", colourful), ""]
    header = f"{'NODE':>5}  {'ROLES':<18}  {'STATE':<12}  {'LEADS':>6}  {'IN SYNC':>9}  ADDRESS"
    shown.append(paint(cut(header, width), "reverse", colourful))
    for node_id in plan.node_ids:
        shown.append(cut(_row(cluster, state, node_id), width))
    shown.append("")
    if state is None:
        shown.append("no broker answers yet")
    else:
        leader = f"node {state.leader_id} in epoch {state.epoch}" if state.leader_id >= 0 else "nobody (an election)"
        lost = f", {state.leaderless} partitions without a leader" if state.leaderless else ""
        shown.append(f"controller: {leader}; {state.topics} topics{lost}")
    shown.append(paint("Ctrl-C stops all nodes.", "dim", colourful))
    return shown


def _row(cluster: LocalCluster, state: ClusterState | None, node_id: int) -> str:
    plan = cluster.plan
    is_broker, is_controller = node_id in plan.broker_ids, node_id in plan.controller_ids
    roles = "+".join(["broker"] * is_broker + ["controller"] * is_controller)
    if not cluster.is_running(node_id):
        return f"{node_id:>5}  {roles:<18}  {'down':<12}  {'':>6}  {'':>9}  {cluster.last_words(node_id)}"
    leads, in_sync = "", ""
    mark = "leads quorum" if state is not None and state.leader_id == node_id else "up"
    if is_broker and state is not None:
        leads, in_sync = str(state.led[node_id]), f"{state.in_sync[node_id]}/{state.replicas[node_id]}"
        if node_id not in state.in_service:
            mark = "starting" if not state.replicas[node_id] else "fenced"
    address = f"{plan.host}:{plan.broker_port(node_id)}" if is_broker else ""
    return f"{node_id:>5}  {roles:<18}  {mark:<12}  {leads:>6}  {in_sync:>9}  {address}"
