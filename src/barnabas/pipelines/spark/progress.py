"""What a stream does between batches: waits for the first new record, and commits what is processed for lag tools."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from barnabas.client.cluster import Cluster
from barnabas.client.errors import BrokerUnreachable, ClientError, Refused, TimedOut, known_code
from barnabas.client.metadata import TopicPartition
from barnabas.pipelines.spark.clients import cluster
from barnabas.pipelines.spark.offsets import Offsets
from barnabas.pipelines.spark.options import SourceOptions
from barnabas.wire.uuids import ZERO_UUID, Uuid

log = logging.getLogger("barnabas.spark")

SMALLEST_FETCH_BYTES = 1


def wait_for_records(asked: Cluster, options: SourceOptions, at: Offsets, ids: Mapping[str, str]) -> bool:
    """Waits at the broker until there is a record behind `at`; false if none came within `idleWait`.

    Spark asks an idle source a hundred times a second. A fetch that waits costs nothing, and answers at once when a
    record comes. Only where one broker leads all partitions: several can't be waited for on one thread.
    """
    leaders = {asked.leader(topic, partition) for topic, partition in at}
    if len(leaders) != 1:
        return True
    from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    topics: dict[str, FetchTopic] = {}
    for (topic, number), offset in at.items():
        topic_id = Uuid.parse(ids[topic]) if topic in ids else ZERO_UUID
        entry = topics.setdefault(topic, FetchTopic(topic=topic, topic_id=topic_id))
        entry.partitions.append(
            FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=SMALLEST_FETCH_BYTES)
        )
    request = FetchRequest(
        max_wait_ms=options.idle_wait_ms,
        min_bytes=1,
        max_bytes=SMALLEST_FETCH_BYTES,
        isolation_level=int(options.isolation_level == "read_committed"),
        topics=list(topics.values()),
    )
    unnamed = any(topic not in ids for topic, _ in at)
    try:
        connection = asked.connection(leaders.pop())
        newest = connection.version_of(FetchRequest)
        answer = connection.request(request, min(newest, 12) if unnamed else newest)
    except (BrokerUnreachable, TimedOut):
        return True  # the next look at the topics has the patience for a broker that is away
    answers = [partition for topic in answer.responses for partition in topic.partitions]
    return bool(answer.error_code) or any(one.error_code or one.records for one in answers)


class GroupCommits:
    """With `kafka.group.id`: commits offsets below which all is processed. The checkpoint is what counts, so a commit
    that fails stops nothing."""

    def __init__(self, options: SourceOptions) -> None:
        self._group = options.group_id
        self._properties = options.properties
        self._committed: dict[TopicPartition, int] = {}

    def commit(self, offsets: Offsets) -> None:
        if self._group is None or not offsets or dict(offsets) == self._committed:
            return
        try:
            self._send(self._group, offsets)
        except ClientError as error:
            log.warning("offsets of group %s were not committed: %s", self._group, error)
        else:
            self._committed = dict(offsets)

    def _send(self, group: str, offsets: Offsets) -> None:
        from barnabas.wire.messages.offset_commit import (
            OffsetCommitRequest,
            OffsetCommitRequestPartition,
            OffsetCommitRequestTopic,
        )

        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, number), offset in sorted(offsets.items()):
            entry = topics.setdefault(topic, OffsetCommitRequestTopic(name=topic))
            entry.partitions.append(OffsetCommitRequestPartition(partition_index=number, committed_offset=offset))
        request = OffsetCommitRequest(group_id=group, topics=list(topics.values()))
        # From version 10 on topics go by id only; a name is enough here.
        answer = cluster(self._properties).ask_coordinator("group", group, request, version=8)
        codes = {known_code(one.error_code) for topic in answer.topics for one in topic.partitions if one.error_code}
        if codes:
            raise Refused(min(codes), f"The coordinator of group {group} took no offsets")
