import pytest

from barnabas.core.controller.quorum import Quorum, QuorumReplica, describe_quorum
from barnabas.core.metadata.state import ControllerState, Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
    TopicData,
)
from barnabas.wire.uuids import ZERO_UUID, Uuid

DIRECTORY = Uuid(b"d" * 16)
QUORUM = Quorum(
    leader_id=1,
    leader_epoch=5,
    high_watermark=42,
    voters=[QuorumReplica(id=1, directory_id=DIRECTORY, log_end_offset=43, last_fetch_ms=9, last_caught_up_ms=8)],
    controllers=[
        ControllerState(
            id=1, incarnation_id=ZERO_UUID, endpoints={"CONTROLLER": Endpoint("CONTROLLER", "127.0.0.1", 9093)}
        )
    ],
)


def asked(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            TopicData(topic_name=name, partitions=[PartitionData(partition_index=index) for index in partitions])
            for name, partitions in topics
        ]
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_leader_epoch_watermark_and_voters_are_told(version: int) -> None:
    response = describe_quorum(asked(("__cluster_metadata", [0])), version, QUORUM)
    voter = ReplicaState(
        replica_id=1,
        replica_directory_id=DIRECTORY if version >= 2 else ZERO_UUID,
        log_end_offset=43,
        last_fetch_timestamp=9,
        last_caught_up_timestamp=8,
    )
    partition = ResponsePartitionData(leader_id=1, leader_epoch=5, high_watermark=42, current_voters=[voter])
    nodes = [Node(node_id=1, listeners=[Listener(name="CONTROLLER", host="127.0.0.1", port=9093)])]
    assert response == DescribeQuorumResponse(
        topics=[ResponseTopicData(topic_name="__cluster_metadata", partitions=[partition])],
        nodes=nodes if version >= 2 else [],
    )
    assert response.encode(version)


@pytest.mark.parametrize(
    "request_",
    [
        asked(("t", [0])),
        asked(("__cluster_metadata", [1])),
        asked(("__cluster_metadata", [0, 0])),
        asked(("__cluster_metadata", [0]), ("t", [0])),
    ],
)
def test_anything_else_has_no_quorum(request_: DescribeQuorumRequest) -> None:
    response = describe_quorum(request_, 2, QUORUM)
    assert response.error_code == 0
    assert response.nodes == []
    codes = {part.error_code for topic in response.topics for part in topic.partitions}
    assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_nothing_asked_nothing_told() -> None:
    assert describe_quorum(asked(), 2, QUORUM) == DescribeQuorumResponse()
