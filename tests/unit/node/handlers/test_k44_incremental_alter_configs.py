import logging
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.core.security.model import Operation
from barnabas.node.configuration import BrokerConfig
from barnabas.node.configuration.topics import TopicConfigs
from barnabas.node.handlers import k44_incremental_alter_configs as handler
from barnabas.node.handlers import k74_list_config_resources
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import alter_configs
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

Maker = Callable[..., Any]
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE = 0, 1


@pytest.fixture(autouse=True)
def topic_configs(node: Any) -> None:
    node.topic_configs = TopicConfigs(BrokerConfig.from_properties({"node.id": "1"}))


def setting(kind: int, name: str, key: str, value: str) -> AlterConfigsResource:
    config = AlterableConfig(name=key, config_operation=SET, value=value)
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])


def altering(*resources: AlterConfigsResource, validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)


@pytest.mark.parametrize("version", [0, 1])
def test_what_is_set_holds_from_the_answer_on(node: Any, context: Maker, run: Maker, version: int) -> None:
    request = altering(setting(TOPIC, "a", "retention.ms", "5"), setting(BROKER, "", "message.max.bytes", "77"))
    answer = run(handler.handle(context(44, version), request, node))
    decoded = IncrementalAlterConfigsResponse.decode(answer.encode(version), version)
    assert [(each.error_code, each.error_message) for each in decoded.responses] == [(0, None), (0, None)]
    assert node.topic_configs.log_config(node.image, "a").retention_ms == 5
    assert node.topic_configs.log_config(node.image, "b").max_message_bytes == 77
    assert node.topic_configs.broker(node.image).message_max_bytes == 77


def test_levels_of_loggers_stand_between_what_is_stored(node: Any, context: Maker, run: Maker) -> None:
    logger = logging.getLogger("barnabas.handled")
    resources = [
        setting(TOPIC, "a", "retention.ms", "5"),
        setting(BROKER_LOGGER, "1", "barnabas.handled", "DEBUG"),
        setting(TOPIC, "nope", "retention.ms", "5"),
        setting(BROKER_LOGGER, "2", "barnabas.handled", "ERROR"),
    ]
    try:
        answer = run(handler.handle(context(44, 1), altering(*resources), node))
        assert [(each.resource_name, each.error_code) for each in answer.responses] == [
            ("a", ErrorCode.NONE),
            ("1", ErrorCode.NONE),
            ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("2", ErrorCode.INVALID_REQUEST),
        ]
        assert logger.level == logging.DEBUG
        assert (BROKER_LOGGER, "1") not in node.image.configs
    finally:
        logger.setLevel(logging.NOTSET)


def test_validating_changes_nothing(node: Any, context: Maker, run: Maker) -> None:
    request = altering(
        setting(TOPIC, "a", "retention.ms", "5"),
        setting(BROKER_LOGGER, "1", "root", "FATAL"),
        validate_only=True,
    )
    answer = run(handler.handle(context(44, 1), request, node))
    assert [each.error_code for each in answer.responses] == [0, 0]
    assert node.image.configs == {}
    assert logging.root.level != logging.CRITICAL


def test_who_may_not_alter_is_told_so(node: Any, context: Maker, run: Maker) -> None:
    caller = context(44, 1, (Operation.ALTER_CONFIGS, "a"), (Operation.ALTER_CONFIGS, "kafka-cluster"))
    request = altering(
        setting(TOPIC, "a", "retention.ms", "5"),
        setting(TOPIC, "b", "retention.ms", "5"),
        setting(BROKER, "1", "log.retention.ms", "5"),
        setting(BROKER_LOGGER, "1", "root", "INFO"),
    )
    answer = run(handler.handle(caller, request, node))
    assert [each.error_code for each in answer.responses] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.NONE,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_older_api_replaces_a_topics_configs(node: Any, context: Maker, run: Maker, version: int) -> None:
    node.image.configs[TOPIC, "a"] = {"flush.ms": "9", "retention.ms": "1"}
    config = alter_configs.AlterableConfig(name="retention.ms", value="5")
    resource = alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name="a", configs=[config])
    request = alter_configs.AlterConfigsRequest(resources=[resource])
    answer = run(node.controller.execute(context(33, version), request))
    assert [each.error_code for each in answer.responses] == [0]
    assert node.image.configs[TOPIC, "a"] == {"retention.ms": "5"}


def listed(node: Any, context: Maker, run: Maker, types: list[int], version: int = 1) -> Any:
    request = ListConfigResourcesRequest(resource_types=types if version else [])
    answer = run(k74_list_config_resources.handle(context(74, version), request, node))
    decoded = ListConfigResourcesResponse.decode(answer.encode(version), version)
    return decoded.error_code, [(each.resource_type, each.resource_name) for each in decoded.config_resources]


def test_everything_with_configs_is_listed(node: Any, context: Maker, run: Maker) -> None:
    topics = [(TOPIC, "a"), (TOPIC, "b"), (TOPIC, "c")]
    assert listed(node, context, run, []) == (0, [(BROKER_LOGGER, "1"), (BROKER, "1"), *topics])
    node.image.configs |= {(GROUP, "g"): {"x": "1"}, (CLIENT_METRICS, "m"): {"y": "1"}, (TOPIC, "a"): {"z": "1"}}
    assert listed(node, context, run, []) == (
        0,
        [(GROUP, "g"), (CLIENT_METRICS, "m"), (BROKER_LOGGER, "1"), (BROKER, "1"), *topics],
    )
    assert listed(node, context, run, [GROUP, TOPIC]) == (0, [(GROUP, "g"), *topics])
    assert listed(node, context, run, [], version=0) == (0, [(CLIENT_METRICS, "m")])
    assert listed(node, context, run, [TOPIC, 99]) == (ErrorCode.UNSUPPORTED_VERSION, [])


def test_who_may_not_describe_the_cluster_sees_no_list(node: Any, context: Maker, run: Maker) -> None:
    caller = context(74, 1, (Operation.DESCRIBE_CONFIGS, "kafka-cluster"))
    answer = run(k74_list_config_resources.handle(caller, ListConfigResourcesRequest(), node))
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
