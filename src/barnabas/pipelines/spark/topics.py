"""What a query asks the cluster on the driver: which partitions there are, and the offsets where it begins and ends."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError, Refused
from barnabas.client.metadata import TopicPartition, partition_name
from barnabas.pipelines.spark.clients import cluster
from barnabas.pipelines.spark.data_loss import DataLoss
from barnabas.pipelines.spark.option_values import EARLIEST, LATEST
from barnabas.pipelines.spark.options import OptionError, Position, SourceOptions
from barnabas.wire.errors import ErrorCode

Found = dict[TopicPartition, int]
UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_TOPIC_EXCEPTION)

PATIENCE_S = 1.0


class UnknownTopic(ClientError):
    pass


@dataclass(frozen=True, slots=True)
class Partitions:
    """Those a query subscribes to, as they are now."""

    partitions: frozenset[TopicPartition]
    ids: Mapping[str, str]
    missing: tuple[str, ...] = ()  # topics and partitions that are named but not there


class Topics:
    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    @property
    def cluster(self) -> Cluster:
        return cluster(self._options.properties)

    def partitions(self) -> Partitions:
        subscription = self._options.subscription
        if subscription.kind == "subscribePattern":
            everything = self.cluster.metadata().topics.values()
            pattern = re.compile(subscription.pattern)
            topics = [topic for topic in everything if pattern.fullmatch(topic.name) and not topic.is_internal]
        else:
            topics = list(self.cluster.metadata(subscription.topics).topics.values())
        refused = [topic for topic in topics if topic.error and topic.error not in UNKNOWN and not topic.partitions]
        if refused and refused[0].error is not ErrorCode.LEADER_NOT_AVAILABLE:
            raise Refused(refused[0].error, f"Topic {refused[0].name} can't be read")
        topics = [topic for topic in topics if topic.partitions]
        there = {(topic.name, number) for topic in topics for number in topic.partitions}
        ids = {topic.name: str(topic.topic_id) for topic in topics if any(topic.topic_id)}
        if subscription.kind == "assign":
            gone = tuple(partition_name(partition) for partition in sorted(subscription.partitions - there))
            return Partitions(frozenset(subscription.partitions & there), ids, gone)
        return Partitions(frozenset(there), ids, tuple(sorted(set(subscription.topics) - ids.keys())))

    def partitions_with(self, expected: Collection[TopicPartition]) -> Partitions:
        """Asks for a while before some of `expected` are taken for gone: a broker may not know of them yet."""
        return self._patiently(lambda found: found.partitions.issuperset(expected))

    def existing_partitions(self) -> Partitions:
        """For the beginning of a query, when everything that is named has to be there."""
        found = self._patiently(lambda found: not found.missing)
        if found.missing:
            several = len(found.missing) > 1
            servers = self._options.properties["bootstrap.servers"]
            names = ", ".join(found.missing)
            verb = "do not exist" if several else "does not exist"
            raise UnknownTopic(f"{'topics' if several else 'topic'} {names} {verb} on {servers}")
        return found

    def earliest(self, partitions: Iterable[TopicPartition]) -> Found:
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> Found:
        """The end of the log, or of what is committed when only that is read."""
        return self._offsets(dict.fromkeys(partitions, LATEST))

    def at(self, position: Position, partitions: Collection[TopicPartition], *, unmatched: str = "latest") -> Found:
        if position.kind == "earliest":
            return self.earliest(partitions)
        if position.kind == "latest":
            return self.latest(partitions)
        if position.kind == "timestamp":
            return self._at_timestamps(position, dict.fromkeys(partitions, position.timestamp_ms), unmatched)
        numbers = position.numbers or {}
        if numbers.keys() != set(partitions):
            absent = ", ".join(map(partition_name, sorted(set(partitions) - numbers.keys())))
            extra = ", ".join(map(partition_name, sorted(numbers.keys() - set(partitions))))
            problem = " and ".join(filter(None, (absent and f"lacks {absent}", extra and f"has {extra} in excess")))
            raise OptionError(f"{position.option} has to name every partition that is read; it {problem}")
        if position.kind == "timestamps":
            return self._at_timestamps(position, dict(numbers), unmatched)
        named = self._offsets({partition: number for partition, number in numbers.items() if number < 0})
        return {partition: named.get(partition, number) for partition, number in numbers.items()}

    def starting(self, position: Position, partitions: Collection[TopicPartition]) -> Found:
        """Offsets that a user names have to be there, unless data loss is accepted."""
        found = self.at(position, partitions, unmatched=self._options.unmatched_timestamp)
        if position.kind != "offsets":
            return found
        earliest, latest = self.earliest(partitions), self.latest(partitions)
        loss = DataLoss(self._options.fail_on_data_loss)
        for partition, offset in found.items():
            if not earliest[partition] <= offset <= latest[partition]:
                has = f"{partition_name(partition)} has offsets {earliest[partition]} to {latest[partition]}"
                loss.report(f"{position.option} names offset {offset} of {partition_name(partition)}, but {has}")
                found[partition] = min(max(offset, earliest[partition]), latest[partition])
        return found

    def _patiently(self, complete: Callable[[Partitions], bool]) -> Partitions:
        ends = time.monotonic() + PATIENCE_S
        while not complete(found := self.partitions()) and time.monotonic() < ends:
            time.sleep(PATIENCE_S / 10)
        return found

    def _at_timestamps(self, position: Position, timestamps: Found, unmatched: str) -> Found:
        found = self._offsets(timestamps)
        late = [partition for partition, offset in found.items() if offset < 0]
        if late and unmatched == "error":
            partition = min(late)
            raise OptionError(
                f"{position.option}: {partition_name(partition)} has no record at or after {timestamps[partition]}; "
                "set startingOffsetsByTimestampStrategy to latest to begin at its end"
            )
        return found | (self.latest(late) if late else {})

    def _offsets(self, timestamps: Found) -> Found:
        if not timestamps:
            return {}
        found = self.cluster.list_offsets(
            {(topic, number): timestamp for (topic, number), timestamp in timestamps.items()},
            isolation=self._options.isolation_level,
        )
        return {partition: found[partition].offset for partition in timestamps}
