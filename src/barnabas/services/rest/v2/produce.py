"""Produce in v2: a body of records, and an answer with an offset or an error for each of them."""

from __future__ import annotations

import asyncio
from typing import Any

from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError
from barnabas.client.serdes import RegistryRefused, SerdeError, Serializer
from barnabas.services.rest import errors
from barnabas.services.rest.delivery import Outcome, ReadyRecord, deliver
from barnabas.services.rest.formats import SCHEMA_TYPES, V2_TYPES, to_bytes, unknown_field
from barnabas.services.rest.kafka import Kafka
from barnabas.services.rest.proxy import Proxy
from barnabas.services.rest.v2.metadata import partition_number
from barnabas.web.app import Answer
from barnabas.web.calls import Call
from barnabas.web.errors import HttpError
from barnabas.wire.errors import ErrorCode

PATIENCE_S = 5.0
PAUSE_S = 0.1
FIELDS = frozenset({"records", "key_schema", "key_schema_id", "value_schema", "value_schema_id"})
RECORD_FIELDS = frozenset({"key", "value", "partition"})


async def produce(proxy: Proxy, call: Call) -> Any:
    kafka = proxy.kafka
    form = V2_TYPES.get(call.sent_type, "binary")
    topic = call.parameters["topic"]
    partition = partition_number(call) if "partition" in call.parameters else None
    tree = await call.tree()
    records = record_trees(tree)
    await require_topic(kafka, topic, partition)
    ids: dict[str, int | None] = {"key": None, "value": None}
    ready = await kafka.write(lambda: encoded(kafka, form, topic, tree, records, ids, partition))
    outcomes = await deliver(kafka, topic, ready)
    body = {
        "offsets": [outcome_tree(each) for each in outcomes],
        "key_schema_id": ids["key"],
        "value_schema_id": ids["value"],
    }
    return Answer(body, _status(outcomes))


def record_trees(tree: Any) -> list[dict[str, Any]]:
    if not isinstance(tree, dict):
        raise errors.unprocessable("Null input provided. Data is required." if tree is None else "An object is needed.")
    _require_known(tree, FIELDS)
    records = tree.get("records")
    if not isinstance(records, list) or not records:
        raise errors.unprocessable("Request body has invalid format: records may not be empty.")
    for each in records:
        if not isinstance(each, dict) or not ("value" in each or "key" in each):
            raise errors.unprocessable("Request body has invalid format: a record is an object with key and value.")
        _require_known(each, RECORD_FIELDS)
    return records


def _require_known(tree: dict[str, Any], known: frozenset[str]) -> None:
    if (name := unknown_field(tree, known)) is not None:
        raise errors.unprocessable(f"Unrecognized field: {name}")


async def require_topic(kafka: Kafka, topic: str, partition: int | None) -> None:
    """A topic that is not there is told at once, and not after the producer's patience; brokers that create topics by
    themselves do so here."""
    creates = kafka.settings.produce_topics_created
    until = asyncio.get_running_loop().time() + PATIENCE_S

    def ask(cluster: Cluster) -> Any:
        known = cluster.known_topic(topic)
        if known.error or (partition is not None and partition not in known.partitions):
            known = cluster.metadata([topic], allow_auto_topic_creation=creates).topics[topic]
        return known

    while True:
        found = await kafka.ask(ask)
        if found.error is ErrorCode.LEADER_NOT_AVAILABLE and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(PAUSE_S)
            continue
        if found.error in errors.NOT_ALLOWED:
            raise HttpError(403, 40301, f"Not authorized to access topics: [{topic}]")
        if found.error:
            raise errors.topic_not_found()
        if partition is not None and partition not in found.partitions:
            raise errors.partition_not_found()
        return


def encoded(
    kafka: Kafka,
    form: str,
    topic: str,
    tree: dict[str, Any],
    records: list[dict[str, Any]],
    ids: dict[str, int | None],
    partition: int | None,
) -> list[ReadyRecord]:
    """In a thread. One record that does not fit refuses all of them: none has been sent yet."""
    try:
        if form not in SCHEMA_TYPES:
            return [
                ReadyRecord(
                    to_bytes(form, each.get("key")), to_bytes(form, each.get("value")), (), _place(each, partition)
                )
                for each in records
            ]
        keys = _serializer(kafka, form, "key", tree, records, topic, ids)
        values = _serializer(kafka, form, "value", tree, records, topic, ids)
        return [
            ReadyRecord(
                _with_schema(keys, topic, each.get("key")),
                _with_schema(values, topic, each.get("value")),
                (),
                _place(each, partition),
            )
            for each in records
        ]
    except SerdeError as error:
        raise errors.conversion_failed(str(error)) from None


def _serializer(
    kafka: Kafka,
    form: str,
    part: str,
    tree: dict[str, Any],
    records: list[dict[str, Any]],
    topic: str,
    ids: dict[str, int | None],
) -> Serializer | None:
    if all(each.get(part) is None for each in records):
        return None
    text, schema_id = tree.get(f"{part}_schema"), tree.get(f"{part}_schema_id")
    if text is None and schema_id is None:
        raise errors.missing_schema(part)
    if (text is not None and not isinstance(text, str)) or (schema_id is not None and not isinstance(schema_id, int)):
        raise errors.invalid_schema(f"{part}_schema is not a string, or {part}_schema_id is not a number")
    serializer = kafka.serializers.get(form, part, text if schema_id is None else None, schema_id)
    try:
        ids[part] = serializer.prepared(topic).registered.id
    except SerdeError as error:
        raise errors.invalid_schema(str(error)) from None
    except RegistryRefused as error:
        if error.code == 42201:
            raise errors.invalid_schema(error.message) from None
        raise HttpError(error.status, error.code, error.message) from None
    return serializer


def _with_schema(serializer: Serializer | None, topic: str, value: Any) -> bytes | None:
    return None if serializer is None or value is None else serializer.encode_json(topic, value)


def _place(record: dict[str, Any], partition: int | None) -> int | None:
    if partition is not None:
        return partition
    given = record.get("partition")
    if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 0):
        raise errors.unprocessable("Request body has invalid format: partition is not a number from 0 on.")
    return given


def outcome_tree(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, ClientError):
        code = errors.record_code(outcome)
        return {"partition": None, "offset": None, "error_code": code, "error": str(outcome)}
    return {"partition": outcome.partition, "offset": outcome.offset, "error_code": None, "error": None}


def _status(outcomes: list[Outcome]) -> int:
    for each in outcomes:
        if isinstance(each, ClientError) and errors.record_code(each) in (40101, 40301):
            return errors.record_code(each) // 100
    return 200
