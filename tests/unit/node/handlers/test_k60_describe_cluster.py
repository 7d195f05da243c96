from collections.abc import Callable
from typing import Any

import pytest

from barnabas.core.security.model import Operation
from barnabas.node.handlers import k60_describe_cluster as handler
from barnabas.node.requests import ListenerKind
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from barnabas.wire.records.metadata import BrokerEndpoint, RegisterBrokerRecord

Maker = Callable[..., Any]
BROKERS, CONTROLLERS = 1, 2


@pytest.fixture
def answer(node: Any, context: Maker, run: Maker) -> Maker:
    def of(
        version: int = 2, *denied: tuple[Operation, str], controller: bool = False, **request: Any
    ) -> DescribeClusterResponse:
        kind = ListenerKind.CONTROLLER if controller else ListenerKind.BROKER
        listener = "CONTROLLER" if controller else "PLAINTEXT"
        caller = context(60, version, *denied, kind=kind, listener=listener)
        response = run(handler.handle(caller, DescribeClusterRequest(**request), node))
        return DescribeClusterResponse.decode(response.encode(version), version)

    return of


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_broker_tells_the_brokers(answer: Maker, version: int) -> None:
    response = answer(version)
    assert response.brokers == [DescribeClusterBroker(broker_id=1, host="localhost", port=9092)]
    assert (response.cluster_id, response.controller_id, response.endpoint_type) == ("cluster", 1, BROKERS)


@pytest.mark.parametrize("version", [1, 2])
def test_a_controller_tells_the_controllers(answer: Maker, version: int) -> None:
    response = answer(version, controller=True, endpoint_type=CONTROLLERS)
    assert response.brokers == [DescribeClusterBroker(broker_id=1, host="localhost", port=9093)]
    assert (response.controller_id, response.endpoint_type) == (1, CONTROLLERS)


@pytest.mark.parametrize(
    ("version", "endpoint_type", "controller", "code"),
    [
        (1, CONTROLLERS, False, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (2, BROKERS, True, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (0, BROKERS, True, ErrorCode.INVALID_REQUEST),
        (1, 3, False, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (1, 0, True, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_the_wrong_kind_of_endpoint_is_refused(
    answer: Maker, version: int, endpoint_type: int, controller: bool, code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as caught:
        answer(version, controller=controller, endpoint_type=endpoint_type)
    assert caught.value.code is code


def test_fenced_brokers_are_told_only_where_asked_for(answer: Maker, node: Any) -> None:
    endpoint = BrokerEndpoint(name="PLAINTEXT", host="away", port=9092)
    node.image.replay(RegisterBrokerRecord(broker_id=2, fenced=True, end_points=[endpoint], rack="r"))
    assert [broker.broker_id for broker in answer().brokers] == [1]
    brokers = answer(include_fenced_brokers=True).brokers
    assert [(broker.broker_id, broker.is_fenced, broker.rack) for broker in brokers] == [
        (1, False, None),
        (2, True, "r"),
    ]


def test_operations_on_the_cluster_are_told_where_asked_for(answer: Maker) -> None:
    assert answer(include_cluster_authorized_operations=True).cluster_authorized_operations == 8096
    assert answer().cluster_authorized_operations == -(1 << 31)
    denied = (Operation.DESCRIBE, "kafka-cluster")
    assert answer(2, denied, include_cluster_authorized_operations=True).cluster_authorized_operations == 0
