"""`barnabas cluster drain ID`: moves every replica off a broker and ends when it holds none."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from barnabas.cli.errors import ToolFailed
from barnabas.client.admin.draining import CannotDrain, plan
from barnabas.client.admin.reassignments import named, ongoing, order
from barnabas.client.admin.topics import describe_topics

if TYPE_CHECKING:
    from barnabas.client.admin.reassignments import Assignment
    from barnabas.client.cluster import Cluster

LOOK_S = 0.5


def drain(cluster: Cluster, broker_id: int) -> None:
    """Topics that are made meanwhile may place replicas on the broker: these are moved as well."""
    total, left = 0, len(_held(cluster, broker_id))
    if not left:
        print(f"Broker {broker_id} holds no replicas.")
        return
    try:
        while left:
            total = max(total, left)
            _begin(cluster, broker_id)
            left = _watch(cluster, broker_id, total, left)
    except KeyboardInterrupt:
        raise ToolFailed(
            f"Stopped watching: {left} of {total} partitions are still on broker {broker_id}, and go on moving."
        ) from None
    print(f"Broker {broker_id} holds no replicas: it can be stopped and unregistered.")


def _held(cluster: Cluster, broker_id: int) -> set[tuple[str, int]]:
    topics = describe_topics(cluster, cluster.metadata().topics)
    return {(topic.name, each.number) for topic in topics for each in topic.partitions if broker_id in each.replicas}


def _begin(cluster: Cluster, broker_id: int) -> None:
    metadata = cluster.metadata()
    try:
        wanted = plan(describe_topics(cluster, metadata.topics), metadata.brokers, broker_id)
    except CannotDrain as refusal:
        raise ToolFailed(str(refusal)) from None
    moving = ongoing(cluster)
    fresh: Assignment = {partition: replicas for partition, replicas in wanted.items() if partition not in moving}
    errors = order(cluster, fresh) if fresh else {}
    if errors:
        told = "; ".join(f"{named(partition)}: {why}" for partition, why in sorted(errors.items())[:5])
        raise ToolFailed(f"The controller refused to move {len(errors)} partitions: {told}")


def _watch(cluster: Cluster, broker_id: int, total: int, left: int) -> int:
    """Until no move runs; what is still on the broker then."""
    while True:
        now = len(_held(cluster, broker_id))
        if now != left:
            print(f"{total - now} of {total} partitions have left broker {broker_id}.", flush=True)
        left = now
        if not left or not ongoing(cluster):
            return len(_held(cluster, broker_id))
        time.sleep(LOOK_S)
