"""Consumers in v2: instances in groups, their subscriptions, positions, offsets and records."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

from barnabas.client.consumer import GroupConsumer
from barnabas.client.errors import Refused
from barnabas.client.metadata import TopicPartition
from barnabas.client.offsets import CommittedOffset
from barnabas.client.records import ConsumerRecord
from barnabas.client.serdes import RegistryRefused, SerdeError
from barnabas.services.rest import errors
from barnabas.services.rest.consumers import Consumers, Held, topic_pattern
from barnabas.services.rest.formats import (
    FORMATS,
    PLAIN_V2,
    V2_TYPES,
    from_bytes,
    point_in_time_ms,
    unknown_field,
    v2_type,
)
from barnabas.services.rest.instances import Instance
from barnabas.services.rest.proxy import Proxy
from barnabas.web.app import Answer, as_response
from barnabas.web.calls import Call
from barnabas.web.errors import HttpError, plain_error
from barnabas.wire.errors import ErrorCode

T = TypeVar("T")
START, END = -2, -1
NAME = re.compile(r"[^\x00-\x1f/]{1,200}\Z")
READ_MAX_MS = 60_000
PATTERN_MAX = 1_000
FIELDS = frozenset(
    {"id", "name", "format", "auto.offset.reset", "auto.commit.enable"}
    | {"fetch.min.bytes", "responseMinBytes", "consumer.request.timeout.ms", "requestWaitMs"}
)


async def create(proxy: Proxy, call: Call) -> Any:
    tree = await call.tree() or {}
    if not isinstance(tree, dict):
        raise errors.unprocessable("Request body has invalid format: an object is needed.")
    if (name := unknown_field(tree, FIELDS)) is not None:
        raise errors.unprocessable(f"Unrecognized field: {name}")
    instance = _new_instance(proxy, call.parameters["group"], tree)
    await proxy.kafka.order(lambda: proxy.consumers.create(instance))
    base = proxy.base_url(call)
    uri = f"{base}/consumers/{call.segments[1]}/instances/{quote(instance.name, safe='-_.~:')}"
    return {"instance_id": instance.name, "base_uri": uri}


def _new_instance(proxy: Proxy, group: str, tree: dict[str, Any]) -> Instance:
    form = str(tree.get("format") or "binary").lower()
    if form not in FORMATS:
        raise errors.unprocessable(f"Invalid format type. {form} is none of {', '.join(FORMATS)}.")
    name = tree.get("id") or tree.get("name") or f"rest-consumer-{uuid.uuid4()}"
    if not isinstance(name, str) or not NAME.match(name):
        raise errors.invalid_consumer("name is not a name.")
    reset = tree.get("auto.offset.reset")
    auto_commit = str(tree.get("auto.commit.enable", True)).lower()
    if auto_commit not in ("true", "false"):
        raise errors.invalid_consumer("auto.commit.enable is neither true nor false.")
    default_ms = proxy.kafka.settings.request_timeout_ms
    timeout_ms = _whole(tree, "consumer.request.timeout.ms", _whole(tree, "requestWaitMs", default_ms))
    min_bytes = _whole(tree, "fetch.min.bytes", _whole(tree, "responseMinBytes", -1))
    if not -1 <= min_bytes <= 10_000_000:
        raise errors.invalid_consumer_value(
            f"Invalid value {min_bytes} for configuration fetch.min.bytes: it must be between -1 and 10000000"
        )
    return Instance(
        group=group,
        name=name,
        format=form,
        properties={} if reset is None else {"auto.offset.reset": str(reset).lower()},
        auto_commit=auto_commit == "true",
        request_timeout_ms=min(timeout_ms, READ_MAX_MS),
        min_bytes=min_bytes,
    )


def _whole(tree: dict[str, Any], name: str, default: int) -> int:
    try:
        return default if tree.get(name) is None else int(str(tree[name]))
    except ValueError:
        raise errors.invalid_consumer(f"{name} is not a number.") from None


async def delete(proxy: Proxy, call: Call) -> Any:
    await proxy.kafka.order(lambda: proxy.consumers.delete(call.parameters["group"], call.parameters["instance"]))


async def subscribe(proxy: Proxy, call: Call) -> Any:
    tree = await _object(call)
    topics, pattern = tree.get("topics"), tree.get("topic_pattern")
    if (topics is None) == (pattern is None):
        raise errors.already_subscribed() if topics is not None else errors.unprocessable("topics are missing.")
    if topics is not None and not (isinstance(topics, list) and all(isinstance(each, str) for each in topics)):
        raise errors.unprocessable("topics is not a list of names.")
    if pattern is not None:
        if not isinstance(pattern, str) or len(pattern) > PATTERN_MAX:
            raise errors.unprocessable(f"topic_pattern is not a text of at most {PATTERN_MAX} characters.")
        topic_pattern(pattern)
    await _with(proxy, call, lambda held: proxy.consumers.subscribe(held, topics or [], pattern))


async def subscription(proxy: Proxy, call: Call) -> Any:
    def topics(held: Held) -> list[str]:
        if held.instance.pattern is not None and held.consumer is not None:
            return sorted({topic for topic, _ in held.consumer.assignment})
        return held.instance.topics

    return {"topics": await _with(proxy, call, topics)}


async def unsubscribe(proxy: Proxy, call: Call) -> Any:
    await _with(proxy, call, lambda held: proxy.consumers.subscribe(held, [], None))


async def assign(proxy: Proxy, call: Call) -> Any:
    places = _places(await _object(call), "partitions")
    await _with(proxy, call, lambda held: proxy.consumers.assign(held, places))


async def assignments(proxy: Proxy, call: Call) -> Any:
    def listed(held: Held) -> list[TopicPartition]:
        _joined(held)
        return [] if held.consumer is None else sorted(held.consumer.assignment)

    found = await _with(proxy, call, listed)
    return {"partitions": [{"topic": topic, "partition": number} for topic, number in found]}


async def seek(proxy: Proxy, call: Call) -> Any:
    """To offsets, and to the first records of points in time."""
    tree = {"offsets": [], "timestamps": []} | {name: each for name, each in (await _object(call)).items() if each}
    wanted = dict(zip(_places(tree, "offsets"), map(_offset, tree["offsets"]), strict=True))
    times = dict(zip(_places(tree, "timestamps"), map(_time_ms, tree["timestamps"]), strict=True))
    await _with(proxy, call, lambda held: _seek(proxy.consumers, held, wanted | _at_times(held, times)))


def _at_times(held: Held, times: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Where no record is late enough it is the end."""
    if not times or held.consumer is None:
        return dict.fromkeys(times, END)
    _joined(held)
    return held.consumer.offsets_at(times)


async def seek_to_beginning(proxy: Proxy, call: Call) -> Any:
    places = _places(await _object(call), "partitions")
    await _with(proxy, call, lambda held: _seek(proxy.consumers, held, dict.fromkeys(places, START)))


async def seek_to_end(proxy: Proxy, call: Call) -> Any:
    places = _places(await _object(call), "partitions")
    await _with(proxy, call, lambda held: _seek(proxy.consumers, held, dict.fromkeys(places, END)))


def _seek(consumers: Consumers, held: Held, wanted: dict[TopicPartition, int]) -> None:
    if held.consumer is None:
        raise errors.illegal_state("No current assignment: subscribe to topics or assign partitions first.")
    _joined(held)
    for topic, number in wanted:
        if (topic, number) not in held.consumer.assignment:
            raise errors.illegal_state(f"No current assignment for partition {topic}-{number}")
    for (topic, number), offset in wanted.items():
        held.consumer.seek(topic, number, offset)
    held.waiting = type(held.waiting)(each for each in held.waiting if (each.topic, each.partition) not in wanted)
    consumers.save(held)


def _joined(held: Held) -> None:
    """A member that has just subscribed is given a moment to get its partitions."""
    until = time.monotonic() + held.instance.request_timeout_ms / 1000
    consumer = held.consumer
    while isinstance(consumer, GroupConsumer) and not consumer.assignment and time.monotonic() < until:
        consumer.keep_up(50)


async def commit(proxy: Proxy, call: Call) -> Any:
    tree = await call.tree()
    given: dict[TopicPartition, CommittedOffset] | None = None
    if isinstance(tree, dict) and tree.get("offsets") is not None:
        places = _places(tree, "offsets")
        given = {
            place: CommittedOffset(_offset(each) + 1, str(each.get("metadata") or ""))
            for place, each in zip(places, tree["offsets"], strict=True)
        }
    await _with(proxy, call, lambda held: _commit(held, given))
    return Answer([])


def _commit(held: Held, given: dict[TopicPartition, CommittedOffset] | None) -> None:
    if held.consumer is None:
        raise errors.illegal_state("The consumer has neither topics nor partitions.")
    if given is None:
        given = {place: CommittedOffset(offset) for place, offset in held.positions().items() if offset >= 0}
    try:
        held.consumer.commit(given)
    except Refused as error:
        if error.code is ErrorCode.REBALANCE_IN_PROGRESS:
            raise HttpError(500, 50003, "The group is being rebalanced; commit again.") from None
        raise


async def committed(proxy: Proxy, call: Call) -> Any:
    tree = await call.tree()
    if tree is None:
        raise errors.partition_not_found()
    places = _places(as_object(tree), "partitions")

    def ask(held: Held) -> dict[TopicPartition, CommittedOffset]:
        if held.consumer is None:
            raise errors.illegal_state("The consumer has neither topics nor partitions.")
        return held.consumer.committed(places)

    found = await _with(proxy, call, ask)
    return {
        "offsets": [
            {"topic": topic, "partition": number, "offset": each.offset, "metadata": each.metadata}
            for (topic, number), each in sorted(found.items())
        ]
    }


async def records(proxy: Proxy, call: Call) -> Any:
    timeout_ms = _query_number(call, "timeout")
    max_bytes = _query_number(call, "max_bytes")
    accepted = {each.partition(";")[0].strip() for each in call.headers.get("accept", "*/*").split(",")}

    def read(held: Held) -> tuple[str, list[dict[str, Any]]]:
        form = held.instance.format
        named = {V2_TYPES[each] for each in accepted if each in V2_TYPES}
        if named and form not in named:
            raise errors.format_mismatch()
        wait_ms = held.instance.request_timeout_ms if timeout_ms is None else min(timeout_ms, READ_MAX_MS)
        limit = proxy.kafka.settings.request_bytes_max
        return form, _read(proxy.consumers, held, wait_ms, limit if max_bytes is None else min(max_bytes, limit))

    form, found = await _with(proxy, call, read, waits=True)
    return as_response(Answer(found), v2_type(form) if v2_type(form) in accepted else PLAIN_V2)


def _read(consumers: Consumers, held: Held, wait_ms: int, bytes_max: int) -> list[dict[str, Any]]:
    consumer = held.consumer
    if consumer is None:
        raise errors.illegal_state("Consumer is not subscribed to any topics or assigned any partitions")
    deadline = time.monotonic() + wait_ms / 1000
    taken: list[ConsumerRecord] = []
    size = 0
    while size < bytes_max:
        if not held.waiting:
            enough = bool(taken) and size >= held.instance.min_bytes
            left_ms = 0 if enough else max(int((deadline - time.monotonic()) * 1000), 0)
            held.waiting.extend(consumer.poll(left_ms))
            if not held.waiting:
                break
        record = held.waiting[0]
        size += len(record.key or b"") + len(record.value or b"")
        if taken and size > bytes_max:
            break
        taken.append(held.waiting.popleft())
    trees = _shown(consumers, held, taken)
    if trees:
        _remember(consumers, held)
    return trees


def _remember(consumers: Consumers, held: Held) -> None:
    """What the client gets now it shall not get again, whichever proxy it asks next."""
    if held.instance.auto_commit:
        _commit(held, None)
    consumers.save(held)


def _shown(consumers: Consumers, held: Held, taken: list[ConsumerRecord]) -> list[dict[str, Any]]:
    """A record that cannot be read is told alone; it stays next until the client seeks beyond it."""
    keys, values = consumers.deserializers(held)
    form = held.instance.format
    trees: list[dict[str, Any]] = []
    for at, record in enumerate(taken):
        try:
            key = from_bytes(form, record.key, keys, record.headers)
            value = from_bytes(form, record.value, values, record.headers)
        except (SerdeError, RegistryRefused) as error:
            held.waiting.extendleft(reversed(taken[at:]))
            if trees:
                return trees
            place = f"{record.topic}-{record.partition} at offset {record.offset}"
            text = f"Error deserializing key/value for partition {place}. {error}"
            raise HttpError(500, 50002, f"Kafka error: {text}") from None
        trees.append(
            {"topic": record.topic, "key": key, "value": value, "partition": record.partition, "offset": record.offset}
        )
    return trees


async def _with(proxy: Proxy, call: Call, work: Callable[[Held], T], *, waits: bool = False) -> T:
    group, name = call.parameters["group"], call.parameters["instance"]

    def once() -> T:
        with proxy.consumers.holding(group, name) as held:
            return work(held)

    def do() -> T:
        try:
            return once()
        except Refused as error:
            if error.code is not ErrorCode.FENCED_INSTANCE_ID:
                raise
            # The proxy that had the instance before joined late, in its place. It is taken back.
            return once()

    return await (proxy.kafka.read(do) if waits else proxy.kafka.order(do))


async def _object(call: Call) -> dict[str, Any]:
    return as_object(await call.tree())


def as_object(tree: Any) -> dict[str, Any]:
    if not isinstance(tree, dict):
        raise errors.unprocessable("Null input provided. Data is required." if tree is None else "An object is needed.")
    return tree


def _places(tree: dict[str, Any], name: str) -> list[TopicPartition]:
    listed = tree.get(name)
    if not isinstance(listed, list):
        raise errors.unprocessable(f"{name} is not a list.")
    for each in listed:
        if not (
            isinstance(each, dict) and isinstance(each.get("topic"), str) and isinstance(each.get("partition"), int)
        ):
            raise errors.unprocessable(f"{name} holds something without topic and partition.")
    return [(each["topic"], each["partition"]) for each in listed]


def _offset(tree: dict[str, Any]) -> int:
    offset = tree.get("offset")
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        raise errors.unprocessable("offset is not a number from 0 on.")
    return offset


def _time_ms(tree: dict[str, Any]) -> int:
    time_ms = point_in_time_ms(tree.get("timestamp"))
    if time_ms is None:
        raise errors.unprocessable("timestamp is not a point in time.")
    return time_ms


def _query_number(call: Call, name: str) -> int | None:
    text = call.text(name)
    if not text or text == "-1":
        return None
    if not text.isdecimal() or len(text) > 12:
        raise plain_error(404)
    return int(text)
