"""A directory changes hands: from us to Apache Kafka, back, and from any level of Kafka to us."""

import time
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import Node
from barnabas.wire.messages import alter_client_quotas as alter
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.uuids import Uuid
from tests.reference.handed_groups import HandedGroups
from tests.support import reference
from tests.support.reference_batches import crafted_batch
from tests.support.reference_exchange import Side

PRODUCER_ID = 4242


@pytest.fixture(autouse=True)
def _reference_is_there() -> None:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")


def kafka_on(directory: Path, node: Node) -> reference.ApacheKafka:
    return reference.ApacheKafka(
        directory=directory, data_dir=node.data_dir, port=node.port, controller_port=node.controller_port
    )


def append(side: Side, sequence: int) -> int:
    """One record of the idempotent producer; the offset it is at. By old timestamps the producer would expire."""
    batch = crafted_batch(
        [(b"key", b"value-%d" % sequence)],
        producer_id=PRODUCER_ID,
        producer_epoch=0,
        base_sequence=sequence,
        base_timestamp=int(time.time() * 1000),
    )
    data = [TopicProduceData(name="handed", partition_data=[PartitionProduceData(records=batch)])]
    answer: Any = side.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data), 9)
    part = answer.responses[0].partition_responses[0]
    assert part.error_code == 0, f"{side.name}: error {part.error_code}"
    return int(part.base_offset)


def records(side: Side) -> bytes:
    partitions = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
    request = FetchRequest(max_wait_ms=1_000, min_bytes=1, topics=[FetchTopic(topic="handed", partitions=partitions)])
    answer: Any = side.ask(request, 11)
    assert answer.responses[0].partitions[0].error_code == 0
    return bytes(answer.responses[0].partitions[0].records)


def retention_ms(side: Side) -> str:
    wanted = DescribeConfigsResource(resource_type=2, resource_name="handed", configuration_keys=["retention.ms"])
    answer: Any = side.ask(DescribeConfigsRequest(resources=[wanted]), 4)
    return str(answer.results[0].configs[0].value)


def producer_id(side: Side) -> int:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    side.wait_until(request, 4, lambda answer: answer.error_code == 0)
    answer: Any = side.ask(request, 4)
    return int(answer.producer_id)


def set_credentials_and_quotas(side: Side) -> None:
    credential = ScramCredentialUpsertion(
        name="anna", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"salted" * 5
    )
    answer: Any = side.ask(AlterUserScramCredentialsRequest(upsertions=[credential]), 0)
    assert answer.results[0].error_code == 0
    parts = {"user": "anna", "client-id": None}
    entity = [alter.EntityData(entity_type=kind, entity_name=name) for kind, name in parts.items()]
    entry = alter.EntryData(entity=entity, ops=[alter.OpData(key="consumer_byte_rate", value=1000.0)])
    answer = side.ask(alter.AlterClientQuotasRequest(entries=[entry]), 1)
    assert answer.entries[0].error_code == 0


def credentials_and_quotas(side: Side) -> Any:
    credentials: Any = side.ask(DescribeUserScramCredentialsRequest(users=None), 0)
    quotas: Any = side.ask(DescribeClientQuotasRequest(components=[]), 1)
    users = {
        each.user: [(info.mechanism, info.iterations) for info in each.credential_infos] for each in credentials.results
    }
    limits = {
        tuple(sorted((part.entity_type, part.entity_name) for part in each.entity)): [
            (value.key, value.value) for value in each.values
        ]
        for each in quotas.entries
    }
    return users, limits


def live(side: Side) -> tuple[Uuid, bytes]:
    side.create_topic("handed", configs={"retention.ms": "987654321"})
    set_credentials_and_quotas(side)
    for sequence in range(4):
        append(side, sequence)
    return side.topic_id("handed"), records(side)


def go_on(side: Side, topic_id: Uuid, seen: bytes, sequence: int) -> bytes:
    """Everything is there, a repeated record is recognised, the next one is appended."""
    side.wait_for_leaders("handed", 1)
    assert side.topic_id("handed") == topic_id
    assert retention_ms(side) == "987654321"
    assert credentials_and_quotas(side) == (
        {"anna": [(1, 4096)]},
        {(("client-id", None), ("user", "anna")): [("consumer_byte_rate", 1000.0)]},
    )
    assert records(side)[: len(seen)] == seen
    assert append(side, sequence - 1) == sequence - 1
    assert append(side, sequence) == sequence
    return records(side)


def test_kafka_goes_on_where_our_node_stopped_and_our_node_after_it(tmp_path: Path) -> None:
    groups = HandedGroups()
    with Node(data_dir=tmp_path / "data") as node:
        with Side("Barnabas", node) as side:
            topic_id, seen = live(side)
            groups.live(side)
            first_id = producer_id(side)
        node.stop()
        log = next((node.data_dir / "__cluster_metadata-0").glob("*.log"))
        dumped = reference.run_tool("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(log)).stdout
        assert '"type":"USER_SCRAM_CREDENTIAL_RECORD"' in dumped
        assert '"type":"CLIENT_QUOTA_RECORD"' in dumped
        with kafka_on(tmp_path / "kafka", node) as kafka, Side("Apache Kafka", kafka) as side:
            seen = go_on(side, topic_id, seen, 4)
            groups.go_on(side, "second")
            second_id = producer_id(side)
            assert second_id > first_id
        node.start()
        with Side("Barnabas", node) as side:
            seen = go_on(side, topic_id, seen, 5)
            groups.go_on(side, "third")
            assert producer_id(side) > second_id
        node.stop()
        with kafka_on(tmp_path / "kafka", node) as kafka, Side("Apache Kafka", kafka) as side:
            go_on(side, topic_id, seen, 6)


@pytest.mark.parametrize("release", ["4.0", "4.1", "4.2", "4.3"])
def test_our_node_opens_what_kafka_left_and_kafka_takes_it_back(tmp_path: Path, release: str) -> None:
    kafka = reference.ApacheKafka(directory=tmp_path / "kafka", release_version=release)
    with kafka, Side("Apache Kafka", kafka) as side:
        topic_id, seen = live(side)
    with Node(data_dir=kafka.data_dir) as node, Side("Barnabas", node) as side:
        seen = go_on(side, topic_id, seen, 4)
    with kafka, Side("Apache Kafka", kafka) as side:
        go_on(side, topic_id, seen, 5)
