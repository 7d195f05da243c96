"""The topic `_schemas`: made or checked at the start, read from its start to its end and on, and written.

Everything the registry wants of Kafka is here and in `election`. The calls block; reading and writing have threads of
their own, and tell the event loop what they found.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from barnabas.client.cluster import Cluster
from barnabas.client.consumer import AssignedConsumer, ConsumerSettings
from barnabas.client.errors import ClientError, Refused, TimedOut
from barnabas.client.producer import Producer, ProducerSettings, RecordMetadata
from barnabas.client.records import ConsumerRecord
from barnabas.services.registry.records import Record
from barnabas.services.registry.settings import RegistrySettings
from barnabas.wire.errors import ErrorCode

log = logging.getLogger(__name__)

START, END = -2, -1
POLL_MS = 1_000
RETRY_S = 0.5
LOAD_RECORDS = 5_000
# A write is given up after this; the primary stops writing this long before its membership can end.
DELIVERY_TIMEOUT_MS = 3_000
TOPIC_RESOURCE = 2
OnRecords = Callable[[Sequence[ConsumerRecord], int], None]


class TopicUnusable(Exception):
    """The topic cannot keep schemas as it is; the text says why."""


class RecordTooLarge(Exception):
    pass


class SchemaTopic:
    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._partition = (settings.topic, 0)
        self.cluster_id = ""
        self._ask = Cluster(settings.kafka)
        self._end = Cluster(replace(settings.kafka, default_api_timeout_ms=settings.timeout_ms))
        self._end_lock = threading.Lock()
        self._consumer: AssignedConsumer | None = None
        self._producer: Producer | None = None
        self._reader: threading.Thread | None = None
        self._closing = threading.Event()

    def open(self) -> None:
        """Creates the topic if it is not there, and refuses one that would lose schemas."""
        metadata = self._ask.metadata([self._settings.topic])
        self.cluster_id = metadata.cluster_id or ""
        topic = metadata.topics[self._settings.topic]
        if topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._create(len(metadata.brokers))
        elif topic.error:
            raise TopicUnusable(f"The topic {self._settings.topic} cannot be used: {topic.error.name}.")
        else:
            self._check(len(topic.partitions))
        kafka = self._settings.kafka
        settings = ConsumerSettings.from_properties(dict(kafka.properties) | {"enable.auto.commit": "false"})
        self._consumer = AssignedConsumer(
            kafka, replace(settings, max_poll_records=LOAD_RECORDS, offset_reset="earliest")
        )
        self._consumer.assign({self._partition: START})

    def read_to_end(self) -> Iterable[ConsumerRecord]:
        """All that is there now."""
        assert self._consumer is not None
        end = self.end_offset()
        deadline = time.monotonic() + self._settings.init_timeout_ms / 1000
        while self.position < end:
            if time.monotonic() > deadline:
                raise TimedOut(
                    f"{self._settings.topic} was not read to its end within {self._settings.init_timeout_ms} ms."
                )
            yield from self._consumer.poll(POLL_MS)

    @property
    def position(self) -> int:
        """The offset of the next record to be read."""
        assert self._consumer is not None
        return self._consumer.positions[self._partition]

    def start(self, on_records: OnRecords) -> None:
        """Goes on reading; `on_records` is called in the reader's thread with records and the offset behind them."""
        producer = ProducerSettings.from_properties(self._settings.kafka.properties)
        settings = replace(
            producer,
            linger_ms=0,
            max_block_ms=DELIVERY_TIMEOUT_MS,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=DELIVERY_TIMEOUT_MS - 500,
            max_request_size=16 * 1024 * 1024,  # the topic has the last word
        )
        self._producer = Producer(self._settings.kafka, settings)
        self._producer.partitions_for(self._settings.topic)
        self._reader = threading.Thread(target=self._read, args=(on_records,), name="registry-reader", daemon=True)
        self._reader.start()

    def append(self, records: Sequence[Record]) -> asyncio.Future[int]:
        """The offset of the last of them, once all are committed. Called in the event loop."""
        assert self._producer is not None
        loop = asyncio.get_running_loop()
        written: asyncio.Future[int] = loop.create_future()

        def told(metadata: RecordMetadata | None, error: ClientError | None) -> None:
            loop.call_soon_threadsafe(settle, metadata, error)

        def settle(metadata: RecordMetadata | None, error: ClientError | None) -> None:
            if written.done():
                return
            if error is not None:
                large = isinstance(error, Refused) and error.code in TOO_LARGE
                written.set_exception(RecordTooLarge() if large else error)
            elif metadata is not None:
                written.set_result(metadata.offset)

        try:
            for record in records[:-1]:
                key, value = record.encode()
                self._producer.send(self._settings.topic, value, key, partition=0, callback=_only_errors(told))
            key, value = records[-1].encode()
            self._producer.send(self._settings.topic, value, key, partition=0, callback=told)
        except ClientError as error:
            settle(None, error)
        return written

    def end_offset(self) -> int:
        """Blocking, for `kafkastore.timeout.ms` at most."""
        with self._end_lock:
            return self._end.list_offsets({self._partition: END})[self._partition].offset

    def close(self) -> None:
        self._closing.set()
        if self._producer is not None:
            self._producer.close(1)
        if self._reader is not None:
            self._reader.join(POLL_MS / 1000 + 1)
        if self._consumer is not None:
            self._consumer.close()
        self._ask.close()
        self._end.close()

    def _read(self, on_records: OnRecords) -> None:
        assert self._consumer is not None
        while not self._closing.is_set():
            try:
                records = self._consumer.poll(POLL_MS)
            except ClientError as error:
                if self._closing.is_set():
                    return
                log.warning("%s cannot be read, trying again in %s s: %s", self._settings.topic, RETRY_S, error)
                self._closing.wait(RETRY_S)
                continue
            if records:
                on_records(records, self.position)

    def _create(self, brokers: int) -> None:
        from barnabas.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

        settings = self._settings
        replicas = min(brokers, settings.replication_factor)
        if replicas < settings.replication_factor:
            log.warning(
                "%s is created with %s replicas instead of %s: there are only %s brokers",
                settings.topic,
                replicas,
                settings.replication_factor,
                brokers,
            )
        configs = dict(settings.topic_configs) | {"cleanup.policy": "compact"}
        wanted = CreatableTopic(
            name=settings.topic,
            num_partitions=1,
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )
        answer = self._ask.ask_controller(CreateTopicsRequest(topics=[wanted]))
        result = answer.topics[0]
        if result.error_code and result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise Refused(result.error_code, result.error_message or f"{settings.topic} cannot be created")
        self._ask.forget_leader(settings.topic)

    def _check(self, partitions: int) -> None:
        from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

        topic = self._settings.topic
        if partitions != 1:
            raise TopicUnusable(f"The topic {topic} must have 1 partition and has {partitions}.")
        resource = DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=["cleanup.policy"]
        )
        answer = self._ask.ask(DescribeConfigsRequest(resources=[resource]))
        found = answer.results[0]
        if found.error_code:
            raise Refused(found.error_code, found.error_message or f"The configuration of {topic} cannot be read")
        policy = next((each.value for each in found.configs if each.name == "cleanup.policy"), None)
        if policy != "compact":
            raise TopicUnusable(
                f"The topic {topic} has cleanup.policy={policy} and would lose schemas: it must be compact."
            )


TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
Told = Callable[[RecordMetadata | None, ClientError | None], None]


def _only_errors(told: Told) -> Told:
    def told_errors(metadata: RecordMetadata | None, error: ClientError | None) -> None:
        if error is not None:
            told(metadata, error)

    return told_errors
