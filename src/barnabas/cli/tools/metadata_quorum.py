"""`kafka-metadata-quorum`: describes the metadata quorum; adds and removes controllers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from barnabas.cli.connect import (
    BOOTSTRAP_CONTROLLER,
    BOOTSTRAP_SERVER_ONLY,
    COMMAND_CONFIG,
    OUTPUT,
    bootstrap,
    connect,
    properties_of,
    wants_json,
)
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.output import print_json
from barnabas.client.admin.refusals import check
from barnabas.client.errors import Refused
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.wire.messages.describe_quorum import DescribeQuorumResponse, ReplicaState, ResponsePartitionData

MISSING = "one of the arguments --bootstrap-server --bootstrap-controller is required"
TIMEOUT_MS = 30_000
DRY_RUN = option("--dry-run", help="Say what would be done, and do nothing.")

PARSER = Parser(
    name="metadata-quorum",
    summary="Describes the metadata quorum, and adds and removes controllers.",
    options=(BOOTSTRAP_SERVER_ONLY, BOOTSTRAP_CONTROLLER, COMMAND_CONFIG, OUTPUT),
    help_exit=0,
    commands=(
        Parser(
            name="describe",
            summary="Describe the quorum.",
            options=(
                option("--status", help="Who leads, and who the voters and observers are."),
                option("--replication", help="How far each of them is."),
                option("--human-readable", help="Times as durations."),
            ),
        ),
        Parser(
            name="add-controller",
            summary="Make a controller a voter; --command-config is its configuration.",
            options=(DRY_RUN,),
        ),
        Parser(
            name="remove-controller",
            summary="Take a controller out of the voters.",
            options=(
                option("--controller-id", "-i", takes="id", kind=int, help="The controller's node id."),
                option("--controller-directory-id", "-d", takes="id", help="The id of its metadata directory."),
                DRY_RUN,
            ),
        ),
    ),
)


def run(parsed: Parsed) -> int:
    bootstrap(parsed, missing=MISSING)
    if parsed.command == "remove-controller":
        for name in ("controller-directory-id/-d", "controller-id/-i"):
            if name.partition("/")[0] not in parsed:
                raise UsageError(f"argument --{name} is required")
    with connect(parsed) as cluster:
        try:
            {"describe": _describe, "add-controller": _add, "remove-controller": _remove}[parsed.command or ""](
                cluster, parsed
            )
        except Refused as refusal:
            raise ToolFailed(refusal.message) from None
    return 0


def _describe(cluster: Cluster, parsed: Parsed) -> None:
    if "status" in parsed and "replication" in parsed:
        raise ToolFailed("Only one of --status or --replication should be specified with describe sub-command")
    if "status" in parsed and "human-readable" in parsed:
        raise ToolFailed("The option --human-readable is only supported along with --replication")
    if "status" in parsed:
        _describe_status(cluster, parsed)
    elif "replication" in parsed:
        _describe_replication(cluster, parsed)
    else:
        raise ToolFailed("One of --status or --replication must be specified with describe sub-command")


def _quorum(cluster: Cluster) -> tuple[DescribeQuorumResponse, ResponsePartitionData]:
    from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData

    topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    answer = cluster.ask_controller(DescribeQuorumRequest(topics=[topic]))
    check(answer.error_code, answer.error_message)
    partition = answer.topics[0].partitions[0]
    check(partition.error_code, partition.error_message)
    return answer, partition


def _describe_status(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.wire.messages.describe_cluster import DescribeClusterRequest

    kind = 2 if "bootstrap-controller" in parsed else 1
    cluster_id = cluster.ask(DescribeClusterRequest(endpoint_type=kind)).cluster_id
    answer, quorum = _quorum(cluster)
    leader = next((voter for voter in quorum.current_voters if voter.replica_id == quorum.leader_id), None)
    slowest = min(quorum.current_voters, key=lambda voter: voter.log_end_offset)
    lag = leader.log_end_offset - slowest.log_end_offset if leader else 0
    lag_ms: int = 0
    if leader and slowest is not leader and lag:
        known = leader.last_caught_up_timestamp >= 0 and slowest.last_caught_up_timestamp >= 0
        lag_ms = leader.last_caught_up_timestamp - slowest.last_caught_up_timestamp if known else -1
    endpoints = {
        node.node_id: [f"{listener.name}://{listener.host}:{listener.port}" for listener in node.listeners]
        for node in answer.nodes
    }
    shown = {
        "ClusterId": cluster_id,
        "LeaderId": quorum.leader_id,
        "LeaderEpoch": quorum.leader_epoch,
        "HighWatermark": quorum.high_watermark,
        "MaxFollowerLag": lag,
        "MaxFollowerLagTimeMs": lag_ms,
        "CurrentVoters": [_replica(voter, endpoints.get(voter.replica_id, [])) for voter in quorum.current_voters],
        "CurrentObservers": [_replica(each, []) for each in quorum.observers],
    }
    if wants_json(parsed):
        print_json({name[0].lower() + name[1:]: value for name, value in shown.items()})
        return
    import json

    for name, value in shown.items():
        print(f"{name + ':':<24}{json.dumps(value) if isinstance(value, list) else value}")


def _replica(replica: ReplicaState, endpoints: list[str]) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": replica.replica_id, "directoryId": str(replica.replica_directory_id)}
    return shown | {"endpoints": endpoints} if endpoints else shown


def _describe_replication(cluster: Cluster, parsed: Parsed) -> None:
    _, quorum = _quorum(cluster)
    leader = next((voter for voter in quorum.current_voters if voter.replica_id == quorum.leader_id), None)
    end = leader.log_end_offset if leader else 0
    replicas = [("Leader", leader)] if leader else []
    replicas += [("Follower", voter) for voter in quorum.current_voters if voter is not leader]
    replicas += [("Observer", observer) for observer in quorum.observers]
    if wants_json(parsed):
        print_json(
            [
                {
                    "nodeId": replica.replica_id,
                    "directoryId": str(replica.replica_directory_id),
                    "logEndOffset": replica.log_end_offset,
                    "lag": end - replica.log_end_offset,
                    "lastFetchTimestamp": replica.last_fetch_timestamp,
                    "lastCaughtUpTimestamp": replica.last_caught_up_timestamp,
                    "status": status,
                }
                for status, replica in replicas
            ]
        )
        return
    readable = "human-readable" in parsed
    rows = [
        (
            str(replica.replica_id),
            str(replica.replica_directory_id),
            str(replica.log_end_offset),
            str(end - replica.log_end_offset),
            _time(replica.last_fetch_timestamp, readable),
            _time(replica.last_caught_up_timestamp, readable),
            status,
        )
        for status, replica in replicas
    ]
    header = ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")
    widths = [max(len(row[at]) for row in [header, *rows]) for at in range(len(header))]
    for row in [header, *rows]:
        print("\t".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)))


def _time(timestamp: int, readable: bool) -> str:
    if not readable:
        return str(timestamp)
    return f"{max(0, int(time.time() * 1000) - timestamp)} ms ago" if timestamp >= 0 else "unknown"


def _remove(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest

    node_id = parsed.number("controller-id") or 0
    text = parsed.text("controller-directory-id") or ""
    if node_id < 0:
        raise ToolFailed(f"Invalid negative --controller-id: {node_id}")
    try:
        directory_id = Uuid.parse(text)
    except ValueError:
        raise ToolFailed(f"Failed to parse --controller-directory-id: {text} is not 22 characters of base64.") from None
    if "dry-run" in parsed:
        print(f"DRY RUN of removing  KRaft controller {node_id} with directory id {text}")
        return
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=directory_id)
    answer = cluster.ask_controller(request)
    check(answer.error_code, answer.error_message)
    print(f"Removed  KRaft controller {node_id} with directory id {text}")


def _add(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.cli.files.controller_files import controller_of
    from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener

    path = parsed.text("command-config")
    if path is None:
        raise ToolFailed(
            "You must supply the configuration file of the controller you are adding when using add-controller."
        )
    node_id, directory_id, endpoints = controller_of(properties_of(parsed), path)
    shown = ", ".join(f"{name}://{host}:{port}" for name, host, port in endpoints)
    if "dry-run" in parsed:
        print(f"DRY RUN of adding controller {node_id} with directory id {directory_id} and endpoints: {shown}")
        return
    request = AddRaftVoterRequest(
        cluster_id=None,
        voter_id=node_id,
        voter_directory_id=directory_id,
        listeners=[Listener(name=name, host=host, port=port) for name, host, port in endpoints],
        timeout_ms=TIMEOUT_MS,
    )
    answer = cluster.ask_controller(request)
    check(answer.error_code, answer.error_message)
    print(f"Added controller {node_id} with directory id {directory_id} and endpoints: {shown}")
