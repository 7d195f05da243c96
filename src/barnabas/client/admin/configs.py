"""Configurations of topics, brokers, groups and client metrics, described and altered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.refusals import check
from barnabas.client.errors import BrokerUnreachable, Refused
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.wire.messages.describe_configs import DescribeConfigsResult

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
SET, DELETE = 0, 1


class Config(NamedTuple):
    name: str
    value: str | None
    source: int
    is_sensitive: bool
    is_read_only: bool
    synonyms: list[tuple[str, str | None, int]]

    @property
    def is_default(self) -> bool:
        return self.source == 5


def describe_configs(
    cluster: Cluster, kind: int, names: Iterable[str], *, synonyms: bool = True, node_id: int | None = None
) -> dict[str, list[Config]]:
    """By the resource's name; entries in the order of theirs."""
    from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None) for name in names
    ]
    if not resources:
        return {}
    request = DescribeConfigsRequest(resources=resources, include_synonyms=synonyms)
    answer = cluster.ask(request) if node_id is None else cluster.ask_node(node_id, request)
    found = {}
    for result in answer.results:
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise Refused(result.error_code, f"Topic '{result.resource_name}' does not exist.")
        check(result.error_code, result.error_message)
        found[result.resource_name] = sorted(_entries(result))
    return found


def _entries(result: DescribeConfigsResult) -> Iterator[Config]:
    for each in result.configs:
        others = [(synonym.name, synonym.value, synonym.source) for synonym in each.synonyms]
        yield Config(each.name, each.value, each.config_source, each.is_sensitive, each.read_only, others)


def alter_configs(
    cluster: Cluster, kind: int, changes: Mapping[str, Mapping[str, str | None]], *, validate_only: bool = False
) -> None:
    """By the resource's name; None deletes. What is a broker's own is altered by that broker."""
    from barnabas.wire.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    for name, configs in changes.items():
        node_id = int(name) if kind in (BROKER, BROKER_LOGGER) and name else None
        if node_id is not None:
            require_broker(cluster, node_id)
        operations = [
            AlterableConfig(name=key, config_operation=SET if value is not None else DELETE, value=value)
            for key, value in configs.items()
        ]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=operations)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        answer = cluster.ask_controller(request) if node_id is None else cluster.ask_node(node_id, request)
        for response in answer.responses:
            check(response.error_code, response.error_message)


def configured_names(cluster: Cluster, kind: int) -> list[str]:
    """The resources of a kind that have configurations, groups and client metrics for instance."""
    from barnabas.wire.messages.list_config_resources import ListConfigResourcesRequest

    answer = cluster.ask(ListConfigResourcesRequest(resource_types=[kind]))
    check(answer.error_code)
    return sorted(each.resource_name for each in answer.config_resources if each.resource_type == kind)


def require_broker(cluster: Cluster, node_id: int) -> None:
    """A broker that is not there would be waited for."""
    present = cluster.metadata([]).brokers
    if node_id not in present:
        raise BrokerUnreachable(
            f"Broker {node_id} is not there; the cluster has {', '.join(map(str, sorted(present)))}."
        )
