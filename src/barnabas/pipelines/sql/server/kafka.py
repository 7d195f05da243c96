"""What the server asks of the cluster: topics, offsets, records. Blocking; any thread may call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from barnabas.client.admin import topics as topic_admin
from barnabas.client.cluster import Cluster
from barnabas.client.consumer import AssignedConsumer, ConsumerSettings
from barnabas.client.errors import ClientError, Refused
from barnabas.client.fetcher import FetchSettings
from barnabas.client.producer import Delivery, Producer
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.sql.errors import SqlError
from barnabas.wire.errors import ErrorCode

T = TypeVar("T")
EARLIEST, LATEST = -2, -1
SEND_WITHIN_S = 30
SEEN_WITHIN_S, SEEN_PAUSE_S = 10.0, 0.02


class Kafka:
    def __init__(self, settings: ClientSettings, replication_factor: int | None = None) -> None:
        self.settings = settings
        self._replication_factor = replication_factor
        self._lock = threading.Lock()
        self._cluster = Cluster(settings)
        self._producer: Producer | None = None

    def close(self) -> None:
        with self._lock:
            if self._producer is not None:
                self._producer.close(5)
            self._cluster.close()

    def _asked(self, question: Callable[[Cluster], T]) -> T:
        with self._lock:
            return question(self._cluster)

    def partitions(self, topic: str) -> int:
        """0 if the topic is not there."""
        found = self._asked(lambda cluster: cluster.metadata([topic]).topics[topic])
        return 0 if found.error else len(found.partitions)

    def ids(self, topics: Iterable[str]) -> dict[str, str]:
        """What tells a topic from another one of its name, by name."""
        found = self._asked(lambda cluster: cluster.metadata(list(topics)).topics)
        return {name: str(one.topic_id) for name, one in found.items() if not one.error and any(one.topic_id)}

    def cluster_id(self) -> str:
        return self._asked(lambda cluster: cluster.metadata([]).cluster_id) or ""

    def topics(self) -> list[tuple[str, int, int]]:
        """Name, partitions and replicas of all topics."""
        found = self._asked(lambda cluster: cluster.metadata(None).topics)
        return sorted(
            (name, len(one.partitions), max((len(each.replicas) for each in one.partitions.values()), default=0))
            for name, one in found.items()
            if not one.error
        )

    def create_topic(self, name: str, partitions: int, replicas: int | None, configs: Mapping[str, str]) -> None:
        factor = replicas if replicas is not None else self._replication_factor

        def create(cluster: Cluster) -> None:
            topic_admin.create_topic(cluster, name, partitions=partitions, replication_factor=factor, configs=configs)

        try:
            self._asked(create)
        except Refused as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise SqlError(f"Topic {name} could not be created: {error}") from None
        self._seen(name)

    def _seen(self, name: str) -> None:
        """Waits until brokers tell of a new topic: the controller answers before they do, and the statement that comes
        next may read it."""
        deadline = time.monotonic() + SEEN_WITHIN_S
        while not self.partitions(name) and time.monotonic() < deadline:
            time.sleep(SEEN_PAUSE_S)

    def delete_topic(self, name: str) -> None:
        try:
            self._asked(lambda cluster: topic_admin.delete_topics(cluster, [name]))
        except Refused as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise SqlError(f"Topic {name} could not be deleted: {error}") from None

    def offsets(self, topics: Iterable[str], at: int) -> dict[tuple[str, int], int]:
        """Of all partitions: the first ones or those behind the last committed record."""
        wanted = {(topic, one): at for topic in topics for one in range(self.partitions(topic))}
        if not wanted:
            return {}
        found = self._asked(lambda cluster: cluster.list_offsets(wanted, isolation="read_committed"))
        return {name: one.offset for name, one in found.items()}

    def ends(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Behind the last committed record of partitions that are known to be there; one question to each leader."""
        wanted = dict.fromkeys(places, LATEST)
        found = self._asked(lambda cluster: cluster.list_offsets(wanted, isolation="read_committed"))
        return {name: one.offset for name, one in found.items()}

    def consumer(self, *, committed: bool = True, records: int = 5000, wait_ms: int = 200) -> AssignedConsumer:
        fetch = FetchSettings.from_properties(
            {
                **self.settings.properties,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "fetch.max.wait.ms": str(wait_ms),
            }
        )
        return AssignedConsumer(self.settings, ConsumerSettings(fetch=fetch, max_poll_records=records))

    def send(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int | None = None, **more: Any
    ) -> int:
        """The offset of the record."""
        return self.delivered(self.begin_send(topic, key, value, timestamp_ms, **more))

    def begin_send(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int | None = None, **more: Any
    ) -> Delivery:
        with self._lock:
            if self._producer is None:
                self._producer = Producer(self.settings)
            producer = self._producer
        try:
            return producer.send(topic, value, key=key, timestamp=timestamp_ms, **more)
        except ClientError as error:
            raise SqlError(f"Could not write to topic {topic}: {error}") from None

    def delivered(self, delivery: Delivery) -> int:
        """The offset, once the record is there."""
        try:
            return delivery.result(SEND_WITHIN_S).offset
        except ClientError as error:
            raise SqlError(f"Could not write: {error}") from None
