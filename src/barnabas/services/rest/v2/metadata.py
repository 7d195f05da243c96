"""Brokers, topics and partitions in v2."""

from __future__ import annotations

from typing import Any

from barnabas.client.admin.configs import TOPIC, describe_configs
from barnabas.client.cluster import Cluster
from barnabas.client.metadata import TopicMetadata
from barnabas.services.rest.errors import partition_not_found, topic_not_found
from barnabas.services.rest.proxy import Proxy
from barnabas.web.calls import Call

START, END = -2, -1


async def brokers(proxy: Proxy, call: Call) -> Any:
    return {"brokers": sorted(await proxy.kafka.ask(lambda cluster: list(cluster.metadata([]).brokers)))}


async def topics(proxy: Proxy, call: Call) -> Any:
    return sorted(await proxy.kafka.ask(lambda cluster: list(cluster.metadata().topics)))


async def topic(proxy: Proxy, call: Call) -> Any:
    name = call.parameters["topic"]

    def ask(cluster: Cluster) -> Any:
        found = described(cluster, name)
        configs = describe_configs(cluster, TOPIC, [name], synonyms=False)[name]
        return {
            "name": name,
            "configs": {each.name: each.value for each in configs},
            "partitions": partition_trees(found),
        }

    return await proxy.kafka.ask(ask)


async def partitions(proxy: Proxy, call: Call) -> Any:
    name = call.parameters["topic"]
    return partition_trees(await proxy.kafka.ask(lambda cluster: described(cluster, name)))


async def partition(proxy: Proxy, call: Call) -> Any:
    name, index = call.parameters["topic"], partition_number(call)
    trees = partition_trees(await proxy.kafka.ask(lambda cluster: described(cluster, name)))
    for each in trees:
        if each["partition"] == index:
            return each
    raise partition_not_found()


async def offsets(proxy: Proxy, call: Call) -> Any:
    name, index = call.parameters["topic"], partition_number(call)

    def ask(cluster: Cluster) -> Any:
        if index not in described(cluster, name).partitions:
            raise partition_not_found()
        place = (name, index)
        start = cluster.list_offsets({place: START})[place].offset
        return {"beginning_offset": start, "end_offset": cluster.list_offsets({place: END})[place].offset}

    return await proxy.kafka.ask(ask)


def described(cluster: Cluster, name: str) -> TopicMetadata:
    found = cluster.metadata([name]).topics.get(name)
    if found is None or found.error:
        raise topic_not_found()
    return found


def partition_trees(topic: TopicMetadata) -> list[dict[str, Any]]:
    return [
        {
            "partition": index,
            "leader": each.leader,
            "replicas": [
                {"broker": broker, "leader": broker == each.leader, "in_sync": broker in each.isr}
                for broker in each.replicas
            ],
        }
        for index, each in sorted(topic.partitions.items())
    ]


def partition_number(call: Call) -> int:
    text = call.parameters["partition"]
    if not text.isdecimal() or len(text) > 9:
        raise partition_not_found()
    return int(text)
