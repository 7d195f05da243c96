"""Consumer groups in v3: their members, what they are assigned, and how far they are behind."""

from __future__ import annotations

from typing import Any

from barnabas.client.admin.groups import (
    GroupDescription,
    GroupMember,
    OffsetRow,
    describe_group,
    list_groups,
    offset_rows,
)
from barnabas.client.cluster import Cluster
from barnabas.services.rest.proxy import Proxy
from barnabas.services.rest.v3.resources import Place, Tree, collection, not_found, number, place_of
from barnabas.web.calls import Call

CONSUMER = "consumer"


async def list_all(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)

    def ask(cluster: Cluster) -> list[GroupDescription]:
        names = [each.group for each in list_groups(cluster) if each.protocol_type in (CONSUMER, "")]
        return [describe_group(cluster, name) for name in sorted(names)]

    found = await proxy.kafka.ask(ask)
    return collection("KafkaConsumerGroup", place.url("consumer-groups"), [_group(place, each) for each in found])


async def get(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    return _group(place, await _described(proxy, call))


async def consumers(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    group = await _described(proxy, call, "Consumer Group {} does not exist.")
    found = [_consumer(place, group.group, each) for each in group.members]
    return collection("KafkaConsumer", place.url("consumer-groups", group.group, "consumers"), found)


async def consumer(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    group = await _described(proxy, call)
    return _consumer(place, group.group, _member(group, call))


async def assignments(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    group = await _described(proxy, call)
    member = _member(group, call)
    url = place.url("consumer-groups", group.group, "consumers", member.member_id, "assignments")
    found = [_assignment(place, group.group, member.member_id, *each) for each in member.partitions]
    return collection("KafkaConsumerAssignment", url, found)


async def assignment(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    group = await _described(proxy, call)
    member = _member(group, call)
    wanted = call.parameters["topic"], number(call.parameters["partition"])
    if wanted not in member.partitions:
        raise not_found()
    return _assignment(place, group.group, member.member_id, *wanted)


async def lags(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    group, rows = await _rows(proxy, call)
    found = [_lag(place, group, each) for each in rows]
    return collection("KafkaConsumerLag", place.url("consumer-groups", group.group, "lags"), found)


async def lag(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    wanted = call.parameters["topic"], number(call.parameters["partition"])
    group, rows = await _rows(proxy, call)
    for each in rows:
        if (each.topic, each.partition) == wanted:
            return _lag(place, group, each)
    raise not_found()


async def lag_summary(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    group, rows = await _rows(proxy, call)
    if not rows:
        raise not_found()
    most = max(rows, key=lambda row: row.lag or 0)
    path = ("consumer-groups", group.group)
    return place.resource(
        "KafkaConsumerGroupLagSummary",
        place.url(*path, "lag-summary"),
        f"consumer-groups={group.group}/lag-summary",
        consumer_group_id=group.group,
        max_lag_consumer_id=most.consumer_id or "",
        max_lag_instance_id=_instance_of(group, most.consumer_id),
        max_lag_client_id=most.client_id or "",
        max_lag_topic_name=most.topic,
        max_lag_partition_id=most.partition,
        max_lag=most.lag or 0,
        total_lag=sum(each.lag or 0 for each in rows),
        max_lag_consumer=place.related(*path, "consumers", most.consumer_id or ""),
        max_lag_partition=place.related("topics", most.topic, "partitions", most.partition),
    )


async def _described(proxy: Proxy, call: Call, missing: str | None = None) -> GroupDescription:
    """`missing` is what is told of a group that there is not."""
    name = call.parameters["group"]
    found = await proxy.kafka.ask(lambda cluster: describe_group(cluster, name))
    if found.state == "Dead":
        raise not_found() if missing is None else not_found(missing.format(name))
    return found


async def _rows(proxy: Proxy, call: Call) -> tuple[GroupDescription, list[OffsetRow]]:
    group = await _described(proxy, call, "Consumer Group {} could not be found.")
    rows = await proxy.kafka.ask(lambda cluster: offset_rows(cluster, group))
    return group, [each for each in rows if each.topic is not None and each.current_offset is not None]


def _member(group: GroupDescription, call: Call) -> GroupMember:
    for each in group.members:
        if each.member_id == call.parameters["consumer"]:
            return each
    raise not_found()


def _instance_of(group: GroupDescription, member_id: str | None) -> str | None:
    return next((each.instance_id for each in group.members if each.member_id == member_id), None)


def _spelt(state: str) -> str:
    """PreparingRebalance is PREPARING_REBALANCE."""
    return "".join(f"_{each}" if each.isupper() and at else each for at, each in enumerate(state)).upper()


def _group(place: Place, group: GroupDescription) -> Tree:
    path = ("consumer-groups", group.group)
    return place.resource(
        "KafkaConsumerGroup",
        place.url(*path),
        f"consumer-group={group.group}",
        consumer_group_id=group.group,
        is_simple=not group.protocol_type,
        partition_assignor=group.assignor,
        state=_spelt(group.state),
        type=group.type.upper(),
        is_mixed_consumer_group=False,
        coordinator=place.related("brokers", group.coordinator.id),
        consumers=place.related(*path, "consumers"),
        lag_summary=place.related(*path, "lag-summary"),
    )


def _consumer(place: Place, group: str, member: GroupMember) -> Tree:
    path = ("consumer-groups", group, "consumers", member.member_id)
    return place.resource(
        "KafkaConsumer",
        place.url(*path),
        f"consumer-group={group}/consumer={member.member_id}",
        consumer_group_id=group,
        consumer_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        assignments=place.related(*path, "assignments"),
    )


def _assignment(place: Place, group: str, member_id: str, topic: str, partition: int) -> Tree:
    path = ("consumer-groups", group, "consumers", member_id, "assignments", topic, "partitions", partition)
    return place.resource(
        "KafkaConsumerAssignment",
        place.url(*path),
        f"consumer-group={group}/consumer={member_id}/assignment={topic}/partition={partition}",
        consumer_group_id=group,
        consumer_id=member_id,
        topic_name=topic,
        partition_id=partition,
        partition=place.related("topics", topic, "partitions", partition),
        lag=place.related("consumer-groups", group, "lags", topic, "partitions", partition),
    )


def _lag(place: Place, group: GroupDescription, row: OffsetRow) -> Tree:
    return place.resource(
        "KafkaConsumerLag",
        place.url("consumer-groups", group.group, "lags", row.topic, "partitions", row.partition),
        f"consumer-group={group.group}/lag={row.topic}/partition={row.partition}",
        consumer_group_id=group.group,
        topic_name=row.topic,
        partition_id=row.partition,
        consumer_id=row.consumer_id or "",
        instance_id=_instance_of(group, row.consumer_id),
        client_id=row.client_id or "",
        current_offset=row.current_offset,
        log_end_offset=row.log_end_offset,
        lag=row.lag,
    )
