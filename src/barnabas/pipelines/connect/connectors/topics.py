"""Topic to topic: records to topics of this or of another cluster, exactly once.

The records of a turn and the positions behind them are one transaction of the target. Positions are in its topic
`connect-NAME-positions`; one counts only if the group's offset is still the one that the transaction began with, so
reset tools work. Keys, values and headers are copied as they are with ByteArrayConverter for all three.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.client.cluster import Cluster
from barnabas.client.errors import Refused
from barnabas.client.settings import ClientSettings
from barnabas.client.transactions import TransactionalProducer, init_transactions
from barnabas.pipelines.connect.config import Definition, Setting, not_empty, with_prefix
from barnabas.pipelines.connect.connector import Settings, SinkConnector, TopicPartition, offset_key, token_of
from barnabas.pipelines.connect.data.java_text import java_text
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.errors import ConfigError, DataError
from barnabas.wire.errors import ErrorCode

REPLICAS = -1  # the cluster's default


class TopicSink(SinkConnector):
    doc = "Records to topics of this or another cluster."
    fenced = True
    definition = Definition(
        [
            Setting("target.bootstrap.servers", "STRING", doc="The cluster to write to; other target.* settings are "
                    "its client's.", check=not_empty),
            Setting("target.topic.format", "STRING", "${topic}", doc="The topic to write to."),
            Setting("target.partitions", "STRING", "key", "MEDIUM", "key: by the key; same: as it was read."),
        ]
    )  # fmt: skip

    def configure(self) -> None:
        if self.values["target.partitions"] not in ("key", "same"):
            raise ConfigError("must be key or same", "target.partitions", self.values["target.partitions"])
        own = set(self.definition.settings) - {"target.bootstrap.servers"}
        client = {name: value for name, value in self.given.items() if name not in own}
        self._client = ClientSettings.from_properties(with_prefix(client, "target."))
        self._properties = with_prefix(client, "target.")
        self._positions_topic = f"connect-{self.name}-positions"
        self._tokens: dict[TopicPartition, str] = {}
        self._producer: TransactionalProducer | None = None
        self._open = False  # the transaction has records

    @classmethod
    def task_settings(cls, settings: Settings, tasks_max: int) -> list[dict[str, str]]:
        return [dict(settings)] * tasks_max

    def open(self) -> None:
        self._cluster = Cluster(self._client)
        prepared = init_transactions(self._cluster, f"connect-{self.name}-{self.task}")
        self._make_topic()
        self._producer = TransactionalProducer(self._client, prepared)

    def close(self) -> None:
        if self._producer is not None:
            if self._open:
                self._producer.end(commit=False)
            self._producer.close()
        if hasattr(self, "_cluster"):
            self._cluster.close()

    def _make_topic(self) -> None:
        from barnabas.client.admin.topics import create_topic

        found = self._cluster.metadata([self._positions_topic]).topics[self._positions_topic]
        if found.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return
        try:
            configs = {"cleanup.policy": "compact"}
            create_topic(self._cluster, self._positions_topic, partitions=1, replication_factor=REPLICAS,
                         configs=configs)  # fmt: skip
        except Refused as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    def put(self, records: Sequence[Record]) -> None:
        assert self._producer is not None
        same = self.values["target.partitions"] == "same"
        for record in records:
            self._open = True
            headers = [(each.key, as_bytes(each.value)) for each in record.headers]
            topic = self.values["target.topic.format"].replace("${topic}", record.topic)
            self._producer.send(topic, as_bytes(record.value), as_bytes(record.key), headers,
                                record.partition if same else None, record.timestamp)  # fmt: skip

    def flush(self, positions: Mapping[TopicPartition, int]) -> None:
        assert self._producer is not None
        if not self._open:
            return
        for tp, at in positions.items():
            entry = {"began_at": self._tokens.get(tp, ""), "next_offset": at}
            key = json.dumps([self.name, {"topic": tp[0], "partition": tp[1]}], separators=(",", ":"))
            self._producer.send(self._positions_topic, json.dumps(entry).encode(), key.encode())
        self._producer.end(commit=True)
        self._open = False

    def positions(self, group: Mapping[TopicPartition, tuple[int, str]]) -> Mapping[TopicPartition, int]:
        from barnabas.pipelines.connect.plane.orders import Job
        from barnabas.pipelines.connect.plane.planner import read_offsets

        self._tokens = {tp: token_of(*each)[0] for tp, each in group.items()}
        job = Job(name=self.name, kind="sink", place="", settings={}, tasks=[], client=self._properties,
                  offsets_topic=self._positions_topic)  # fmt: skip
        found: dict[str, dict[str, Any]] = read_offsets(job)
        known = {}
        for topic, partition in self.partitions:
            entry = found.get(offset_key({"topic": topic, "partition": partition}))
            if entry is not None and entry["began_at"] == self._tokens.get((topic, partition), ""):
                known[topic, partition] = int(entry["next_offset"])
        return known


def as_bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str | int | float):
        return java_text(value).encode()
    raise DataError("the sink copies bytes and texts: set key.converter and value.converter to ByteArrayConverter")
