"""`barnabas pipeline rescale` for one checkpoint: nobody runs on it, topics have the number of partitions that is asked
for, and nothing waits in them that was placed by the old number.

Such a record would come to a partition that its key has left. So what was written before a topic grew has to be
processed before it grows: whoever writes is stopped, the topology comes to the end and is stopped, the topic grows,
state is moved, and all go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.client.cluster import Cluster
from barnabas.client.fetcher import Fetcher, FetchSettings
from barnabas.client.partitioning import murmur2
from barnabas.client.records import iterate_records
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.streams.checkpoint import TOPOLOGY, read_note
from barnabas.pipelines.streams.errors import CheckpointError, StreamsError
from barnabas.pipelines.streams.in_use import alone
from barnabas.pipelines.streams.moving import Moved, keyed_topics, move_state, offsets_done, wanted
from barnabas.pipelines.streams.state.storage import Directory

COMMITTED = "read_committed"
POLL_MS = 1000


def rescale(
    checkpoint: Directory,
    partitions: int | Mapping[str, int],
    properties: Mapping[str, str] | None,
    *,
    is_stopped: bool = False,
) -> Moved:
    """Without `properties` of a cluster, topics are not looked at."""
    note = read_note(checkpoint, TOPOLOGY)
    if note is None:
        raise StreamsError(f"{checkpoint.address} is no checkpoint of a topology")
    with alone(checkpoint, is_stopped=is_stopped):
        if properties is not None and note["partitions"]:
            with Cluster(ClientSettings.from_properties(properties)) as cluster:
                check_topics(cluster, note["partitions"], wanted(note["partitions"], partitions))
                check_waiting(cluster, checkpoint, wanted(note["partitions"], partitions))
        return move_state(checkpoint, partitions)


def check_topics(cluster: Cluster, before: Mapping[str, int], after: Mapping[str, int]) -> None:
    topics = cluster.metadata(sorted(after)).topics
    for topic, count in sorted(after.items()):
        there = len(topics[topic].partitions)
        if there != count:
            grow = f"; `barnabas topics --alter --topic {topic} --partitions {count}` makes them"
            raise CheckpointError(
                f"topic {topic} has {there} partitions, not {count}{grow if before[topic] <= there < count else ''}"
            )


def check_waiting(cluster: Cluster, checkpoint: Directory, after: Mapping[str, int]) -> None:
    keyed, done = set(keyed_topics(checkpoint)), offsets_done(checkpoint)
    begin = {(topic, int(number)): offset for topic in keyed & done.keys() for number, offset in done[topic].items()}
    ends = cluster.list_offsets(dict.fromkeys(begin, -1), isolation=COMMITTED)
    waiting = {at: offset for at, offset in begin.items() if offset < ends[at].offset}
    misplaced: dict[str, int] = {}
    with Fetcher(cluster, FetchSettings(isolation=COMMITTED, max_wait_ms=100)) as fetcher:
        fetcher.assign(waiting)
        while any(fetcher.positions[at] < ends[at].offset for at in waiting):
            for fetched in fetcher.poll(POLL_MS):
                count = after[fetched.topic]
                for record in iterate_records(fetched):
                    if record.key is not None and partition_of(record.key, count) != fetched.partition:
                        misplaced[fetched.topic] = misplaced.get(fetched.topic, 0) + 1
    for topic, count in sorted(misplaced.items()):
        raise CheckpointError(
            f"{count} records of topic {topic} that are not processed yet lie where {after[topic]} partitions would not"
            " put them: they were written before the topic grew, and their keys' state would leave them; start the"
            " topology with another checkpoint, behind a repartition() that places records anew"
        )


def partition_of(key: Any, count: int) -> int:
    return (murmur2(bytes(key)) & 0x7FFFFFFF) % count
