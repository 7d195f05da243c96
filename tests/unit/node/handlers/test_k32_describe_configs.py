from collections.abc import Callable
from typing import Any

import pytest

from barnabas.core.security.model import Operation
from barnabas.node.configuration import BrokerConfig
from barnabas.node.configuration.description import Wanted, topic_entries
from barnabas.node.configuration.topics import TopicConfigs
from barnabas.node.handlers import k32_describe_configs as handler
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

Maker = Callable[..., Any]
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.fixture(autouse=True)
def topic_configs(node: Any) -> None:
    node.topic_configs = TopicConfigs(BrokerConfig.from_properties({"node.id": "1"}))


def asked(*resources: tuple[int, str], keys: list[str] | None = None, **rest: Any) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name in resources
        ],
        **rest,
    )


def answered(run: Maker, caller: Any, request: DescribeConfigsRequest, node: Any) -> DescribeConfigsResponse:
    raw = run(handler.handle(caller, request, node))
    return DescribeConfigsResponse.decode(b"".join(raw.parts), caller.api_version)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_resources_are_answered_in_the_order_of_the_request(
    node: Any, context: Maker, run: Maker, version: int
) -> None:
    request = asked((TOPIC, "b"), (BROKER, "1"), (TOPIC, "nope"), (TOPIC, "a"), (GROUP, "g"), (BROKER_LOGGER, "1"))
    decoded = answered(run, context(32, version), request, node)
    assert [(each.resource_type, each.resource_name, each.error_code) for each in decoded.results] == [
        (TOPIC, "b", ErrorCode.NONE),
        (BROKER, "1", ErrorCode.NONE),
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a", ErrorCode.NONE),
        (GROUP, "g", ErrorCode.NONE),
        (BROKER_LOGGER, "1", ErrorCode.NONE),
    ]
    assert [len(each.configs) for each in decoded.results[:5]] == [33, 340, 0, 33, 17]


@pytest.mark.parametrize("keys", [None, []])
def test_no_keys_are_all_keys(node: Any, context: Maker, run: Maker, keys: list[str] | None) -> None:
    answer = answered(run, context(32, 4), asked((TOPIC, "a"), keys=keys), node)
    assert len(answer.results[0].configs) == 33


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (BROKER, "--1", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_not_there_says_so(
    node: Any, context: Maker, run: Maker, kind: int, name: str, code: ErrorCode
) -> None:
    result = answered(run, context(32, 4), asked((kind, name)), node).results[0]
    assert (result.error_code, result.configs) == (code, [])
    assert result.error_message


def test_a_type_nobody_knows_spoils_the_whole_request(node: Any, context: Maker, run: Maker) -> None:
    request = asked((TOPIC, "a"), (99, "x"))
    with pytest.raises(KafkaError) as refusal:
        run(handler.handle(context(32, 4), request, node))
    answer = handler.error_response(request, refusal.value)
    assert [each.error_code for each in answer.results] == [ErrorCode.INVALID_REQUEST] * 2


def test_who_may_not_see_a_config_is_told_so(node: Any, context: Maker, run: Maker) -> None:
    caller = context(32, 4, (Operation.DESCRIBE_CONFIGS, "a"), (Operation.DESCRIBE_CONFIGS, "kafka-cluster"))
    answer = answered(run, caller, asked((TOPIC, "a"), (TOPIC, "b"), (BROKER, "1")), node)
    assert [each.error_code for each in answer.results] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.NONE,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize("synonyms", [False, True])
@pytest.mark.parametrize("keys", [None, ["retention.ms", "flush.ms", "no.such.key"], ["no.such.key"]])
def test_topics_packed_by_hand_are_as_the_codec_would_have_them(
    node: Any, context: Maker, run: Maker, version: int, synonyms: bool, keys: list[str] | None
) -> None:
    node.image.configs |= {
        (TOPIC, "b"): {"retention.ms": "5", "internal.segment.bytes": "100", "unknown": "x"},
        (BROKER, ""): {"log.flush.interval.ms": "7"},
    }
    documentation = version >= 3
    request = asked((TOPIC, "a"), (TOPIC, "b"), (TOPIC, "c"), keys=keys, include_synonyms=synonyms)
    request.include_documentation = documentation
    wanted = Wanted(frozenset(keys or ()), synonyms, documentation)
    expected = DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                resource_type=TOPIC,
                resource_name=name,
                configs=topic_entries(node.topic_configs, node.image, name, wanted),
            )
            for name in ("a", "b", "c")
        ]
    )
    raw = run(handler.handle(context(32, version), request, node))
    assert b"".join(raw.parts) == expected.encode(version)


def test_what_is_remembered_of_topics_ends_with_a_change_of_the_broker(node: Any, context: Maker, run: Maker) -> None:
    request = asked((TOPIC, "a"), keys=["max.message.bytes"])
    for value in ("1048588", "77"):
        answer = answered(run, context(32, 4), request, node)
        assert [each.value for each in answer.results[0].configs] == [value]
        whole = answered(run, context(32, 4), asked((TOPIC, "a")), node)
        assert [each.value for each in whole.results[0].configs if each.name == "max.message.bytes"] == [value]
        node.image.configs[BROKER, "1"] = {"message.max.bytes": "77"}
