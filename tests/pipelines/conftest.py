"""One Spark session for all tests that need one, and a stage on which topics are written."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.fetcher import Fetcher, FetchSettings
from barnabas.client.records import iterate_records
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.spark import clients
from barnabas.pipelines.spark.startup.archive import made_archive
from barnabas.pipelines.spark.startup.java import JavaMissing, find_java
from barnabas.testing import Node
from barnabas.wire.batch import Headers, Record, build_batch
from barnabas.wire.compression import Compression
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

WAIT_S = 180.0
numbers = itertools.count(1)


class Stage:
    """Topics on one cluster, written batch by batch: every call of `write` is one record batch."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.now_ms = time.time_ns() // 1_000_000 - 60_000  # of the first record of every batch
        self.cluster = Cluster(ClientSettings.from_properties({}, bootstrap_servers=servers))

    def topic(self, partitions: int = 1, name: str | None = None, **config: str) -> str:
        name = name or f"plant-{next(numbers)}"
        configs = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)
        answer = self.cluster.ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=20_000))
        assert not answer.topics[0].error_code, answer
        self.wait(lambda: len(self.cluster.metadata([name]).topics[name].partitions) == partitions)
        return name

    def write(
        self,
        topic: str,
        values: Sequence[str | None],
        partition: int = 0,
        *,
        keys: Sequence[str | None] | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        compression: Compression = Compression.NONE,
    ) -> None:
        first_ms = self.now_ms if timestamp_ms is None else timestamp_ms
        records = [
            Record(
                index,
                first_ms + index,
                None if keys is None or keys[index] is None else str(keys[index]).encode(),
                None if value is None else value.encode(),
                headers,
            )
            for index, value in enumerate(values)
        ]
        data = PartitionProduceData(index=partition, records=bytes(build_batch(records, compression=compression)))
        request = ProduceRequest(
            acks=-1, timeout_ms=20_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
        )
        answer = self.cluster.ask_leader(topic, partition, request, version=11)
        assert not answer.responses[0].partition_responses[0].error_code, answer

    def add_partitions(self, topic: str, count: int) -> None:
        wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
        answer = self.cluster.ask_controller(CreatePartitionsRequest(topics=[wanted], timeout_ms=20_000))
        assert not answer.results[0].error_code, answer
        self.wait(lambda: len(self.cluster.metadata([topic]).topics[topic].partitions) == count)

    def delete(self, topic: str) -> None:
        state = DeleteTopicState(name=topic)
        answer = self.cluster.ask_controller(DeleteTopicsRequest(topics=[state], timeout_ms=20_000))
        assert not answer.responses[0].error_code, answer
        self.wait(lambda: bool(self.cluster.metadata([topic]).topics[topic].error))

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        asked = DeleteRecordsTopic(
            name=topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=before)]
        )
        answer = self.cluster.ask_leader(topic, partition, DeleteRecordsRequest(topics=[asked], timeout_ms=20_000))
        assert not answer.topics[0].partitions[0].error_code, answer

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
        (found,) = self.cluster.ask_coordinator("group", group, request, version=8).groups
        return {
            (topic.name, one.partition_index): one.committed_offset
            for topic in found.topics
            for one in topic.partitions
        }

    def read_committed(self, topic: str, partition: int = 0) -> list[tuple[str, str]]:
        """Keys and values, up to the end of what is committed."""
        end = self.cluster.list_offsets({(topic, partition): -1}, isolation="read_committed")[topic, partition].offset
        found: list[tuple[str, str]] = []
        with Fetcher(self.cluster, FetchSettings(isolation="read_committed", max_wait_ms=100)) as fetcher:
            fetcher.assign({(topic, partition): 0})
            while fetcher.positions[topic, partition] < end:
                for fetched in fetcher.poll(1_000):
                    for record in iterate_records(fetched):
                        found.append(((record.key or b"").decode(), (record.value or b"").decode()))
        return found

    def open_transactions(self) -> list[str]:
        request = ListTransactionsRequest(state_filters=["Ongoing"])
        answers = [self.cluster.ask_node(node, request) for node in self.cluster.metadata([]).brokers]
        return [state.transactional_id for answer in answers for state in answer.transaction_states]

    def wait(self, holds: Callable[[], bool]) -> None:
        ends = time.monotonic() + WAIT_S
        while not holds():
            assert time.monotonic() < ends, "it never came true"
            time.sleep(0.02)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.close()

    def options(self, given: Mapping[str, object]) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.servers} | {name: str(value) for name, value in given.items()}


@pytest.fixture(scope="session", autouse=True)
def connections() -> Iterator[None]:
    yield
    clients.close_all()


@pytest.fixture
def make_stage() -> type[Stage]:
    """For tests with a cluster of their own."""
    return Stage


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    with Node({"auto.create.topics.enable": "false"}) as node, Stage(node.bootstrap_servers) as made:
        yield made


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    try:
        find_java()
    except JavaMissing as missing:
        pytest.skip(str(missing))
    from pyspark import SparkContext

    import barnabas.spark

    made_archive()  # many tests start Spark anew: they all begin sooner with it
    directory: Path = tmp_path_factory.mktemp("spark")
    session = barnabas.spark.session(
        "tests",
        master="local[2]",
        conf={
            "spark.log.level": "ERROR",
            "spark.sql.warehouse.dir": str(directory),
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # short queries: the full compiler never pays
        },
    )
    process = SparkContext._gateway.proc  # held here: the JVM ends when nobody holds it
    yield session
    assert process.poll() is None, f"a test has ended the JVM of all tests, with code {process.returncode}"
    session.stop()
