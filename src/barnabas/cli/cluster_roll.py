"""`barnabas cluster roll`: restarts brokers one after the other, each when all replicas are in sync again.

The node that leads the quorum comes last, so that it hands the lead over once. A command restarts a broker, with `{id}`
in it standing for the broker's id; without one the tool says which broker is next and waits until it was gone and is
back. Brokers must be stopped in order (SIGTERM): they hand over what they lead before they go.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.cli.errors import ToolFailed
from barnabas.client.admin.topics import describe_topics
from barnabas.client.errors import ClientError

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

LOOK_S = 0.2
ID = "{id}"


def roll(cluster: Cluster, command: str | None, timeout_s: float) -> None:
    brokers = cluster.metadata([]).brokers
    if len(brokers) == 1:
        raise ToolFailed(
            "There is only one broker, and nobody would serve its partitions meanwhile: restart it yourself."
        )
    leader = _quorum_leader(cluster)
    ids = sorted(brokers, key=lambda broker_id: (broker_id == leader, broker_id))
    _await(lambda: _unsynced(cluster) == 0, timeout_s, "Not all replicas are in sync, so no broker may be restarted.")
    for count, broker_id in enumerate(ids, 1):
        node = brokers[broker_id]
        if command is not None:
            print(f"Restarting broker {broker_id} ({count} of {len(ids)}).", flush=True)
            _run(command, broker_id)
        else:
            print(f"Restart broker {broker_id} at {node.host}:{node.port} now ({count} of {len(ids)}).", flush=True)
            _await(partial(_is_gone, cluster, broker_id), timeout_s, f"Broker {broker_id} was not stopped.")
        _await_back(cluster, broker_id, timeout_s)
        print(f"Broker {broker_id} is back, and all replicas are in sync.", flush=True)


def _run(command: str, broker_id: int) -> None:
    done = subprocess.run(command.replace(ID, str(broker_id)), shell=True)
    if done.returncode:
        raise ToolFailed(
            f"The command for broker {broker_id} ended with code {done.returncode}; the brokers after it were not "
            "restarted."
        )


def _await_back(cluster: Cluster, broker_id: int, timeout_s: float) -> None:
    _await(lambda: broker_id in _present(cluster), timeout_s, f"Broker {broker_id} did not come back.")
    problem = f"Not all replicas are in sync again after broker {broker_id}."
    _await(lambda: _unsynced(cluster) == 0, timeout_s, problem)


def _is_gone(cluster: Cluster, broker_id: int) -> bool:
    return broker_id not in _present(cluster)


def _await(condition: Callable[[], bool], timeout_s: float, problem: str) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if condition():
                return
        except ClientError:
            pass  # The broker that was asked may be the one that is restarted.
        if time.monotonic() > deadline:
            raise ToolFailed(f"{problem} Gave up after {timeout_s:g} s.")
        time.sleep(LOOK_S)


def _present(cluster: Cluster) -> set[int]:
    return set(cluster.metadata([]).brokers)


def _unsynced(cluster: Cluster) -> int:
    """Partitions with a replica that is not in sync."""
    topics = describe_topics(cluster, cluster.metadata().topics)
    return sum(len(each.isr) < len(each.replicas) for topic in topics for each in topic.partitions)


def _quorum_leader(cluster: Cluster) -> int:
    from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData

    topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    answer = cluster.ask_controller(DescribeQuorumRequest(topics=[topic]))
    found = answer.topics[0].partitions[0].leader_id if answer.topics else -1
    return int(found)
