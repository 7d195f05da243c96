"""`controller.quorum.voters`: the configuration names the voters, the log does not (kraft.version 0)."""

from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import Node
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from barnabas.wire.uuids import ZERO_UUID
from tests.support import reference
from tests.support.reference_exchange import Side, differences

QUORUM = DescribeQuorumRequest(
    topics=[TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])]
)
MOVING = [
    "leader_epoch",
    "high_watermark",
    "log_end_offset",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
    "port",
]


@pytest.fixture(autouse=True)
def _reference_is_there() -> None:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")


def voters_of(answer: Any) -> list[tuple[int, object]]:
    return [(each.replica_id, each.replica_directory_id) for each in answer.topics[0].partitions[0].current_voters]


def finalized(side: Side) -> set[str]:
    answer: Any = side.ask(ApiVersionsRequest(client_software_name="tests", client_software_version="1"), 4)
    return {each.name for each in answer.finalized_features}


def test_a_node_with_static_voters_is_formatted_as_kafka_does_it_and_kafka_takes_it_over(tmp_path: Path) -> None:
    port, controller_port = reference.free_port(), reference.free_port()
    voters = {"controller.quorum.voters": f"1@127.0.0.1:{controller_port}"}
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}"
    config = {**voters, "listeners": listeners, "controller.listener.names": "CONTROLLER"}
    answers: list[Any] = []
    with Node(config, data_dir=tmp_path / "data") as node, Side("Barnabas", node) as side:
        assert not list((node.data_dir / "__cluster_metadata-0").glob("*.checkpoint"))
        answers.append(side.ask(QUORUM, 2))
        assert "kraft.version" not in finalized(side)
        side.create_topic("kept")
        topic_id = side.topic_id("kept")
    kafka = reference.ApacheKafka(
        directory=tmp_path / "kafka",
        data_dir=tmp_path / "data",
        port=port,
        controller_port=controller_port,
        properties=voters,
    )
    with kafka, Side("Apache Kafka", kafka) as side:
        side.wait_for_leaders("kept", 1)
        assert side.topic_id("kept") == topic_id
        answers.append(side.ask(QUORUM, 2))
        assert "kraft.version" not in finalized(side)
    with Node(config, data_dir=tmp_path / "data") as node, Side("Barnabas", node) as side:
        assert side.topic_id("kept") == topic_id
        answers.append(side.ask(QUORUM, 2))
    assert [voters_of(answer) for answer in answers] == [[(1, ZERO_UUID)]] * 3
    assert differences(answers[0], answers[1], ignoring=MOVING) == []


def test_what_kafka_formats_with_static_voters_our_node_opens(tmp_path: Path) -> None:
    controller_port = reference.free_port()
    # Of two entries with one id the later counts.
    voters = {"controller.quorum.voters": f"1@127.0.0.1:{reference.free_port()},1@127.0.0.1:{controller_port}"}
    kafka = reference.ApacheKafka(directory=tmp_path / "kafka", controller_port=controller_port, properties=voters)
    kafka.format()
    listeners = f"PLAINTEXT://127.0.0.1:{kafka.port},CONTROLLER://127.0.0.1:{controller_port}"
    config = {**voters, "listeners": listeners, "controller.listener.names": "CONTROLLER"}
    with Node(config, data_dir=kafka.data_dir) as node, Side("Barnabas", node) as side:
        side.create_topic("made")
        topic_id = side.topic_id("made")
        assert voters_of(side.ask(QUORUM, 2)) == [(1, ZERO_UUID)]
    with kafka, Side("Apache Kafka", kafka) as side:
        side.wait_for_leaders("made", 1)
        assert side.topic_id("made") == topic_id
