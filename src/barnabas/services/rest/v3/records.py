"""Produce in v3: records one behind the other in a body that may never end, and a report for each as it is delivered.

The next part of the body is read when the reports of the former are written: memory is bounded by one record and one
part, however long the stream is.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from barnabas.client.errors import ClientError
from barnabas.client.serdes import RegisteredSchema, RegistryRefused, Schema, SerdeError, SerdeSettings, Serializer
from barnabas.client.serdes.settings import RECORD, TOPIC, TOPIC_RECORD
from barnabas.services.rest import errors
from barnabas.services.rest.delivery import Deliveries, Outcome, ReadyRecord
from barnabas.services.rest.formats import from_base64, point_in_time_ms, unknown_field
from barnabas.services.rest.kafka import Kafka
from barnabas.services.rest.proxy import Proxy
from barnabas.services.rest.v2.produce import require_topic
from barnabas.services.rest.v3.json_stream import NotAnObject, ObjectSplitter, ObjectTooLarge
from barnabas.services.rest.v3.resources import EMPTY_BODY, Tree, place_of
from barnabas.web.app import Answer, json_bytes
from barnabas.web.calls import BODIES, Call
from barnabas.web.errors import HttpError
from barnabas.web.streamed import StreamedResponse

STRATEGIES = {"TOPIC_NAME": TOPIC, "RECORD_NAME": RECORD, "TOPIC_RECORD_NAME": TOPIC_RECORD}
PLAIN = ("BINARY", "JSON", "STRING")
SCHEMA_TYPES = {"AVRO": "AVRO", "JSONSCHEMA": "JSON", "JSON_SCHEMA": "JSON", "PROTOBUF": "PROTOBUF"}
SHOWN_TYPES = {"AVRO": "AVRO", "JSON": "JSONSCHEMA", "PROTOBUF": "PROTOBUF"}
TOO_LARGE = "The request included a message larger than the maximum message size the server can accept."
BATCH_MAX = 10
IDENTIFIER_MAX = 80
IDENTIFIER = re.compile(r"[0-9a-zA-Z_-]+")
BATCH_FIELDS = frozenset({"entries"})
RECORD_FIELDS = frozenset({"partition_id", "headers", "key", "value", "timestamp"})
ENTRY_FIELDS = RECORD_FIELDS | {"id"}
HEADER_FIELDS = frozenset({"name", "value"})
PART_FIELDS = frozenset({"type", "subject", "subject_name_strategy", "schema_id", "schema_version", "schema", "data"})
SCHEMA_CHOICES = ("schema_id", "schema_version", "schema")


@dataclass(slots=True)
class Part:
    """A key or value, encoded, and what is reported of it."""

    data: bytes | None = None
    report: Tree | None = None


@dataclass(slots=True)
class Prepared:
    record: ReadyRecord | None
    error: HttpError | None
    key: Tree | None = None
    value: Tree | None = None


async def produce(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    topic = call.parameters["topic"]
    parts = call.stream()
    first = await anext(parts, b"")
    if not first.strip():
        raise errors.invalid_payload(EMPTY_BODY)

    async def reports() -> AsyncIterator[bytes]:
        splitter = ObjectSplitter(proxy.settings.body_bytes_max)
        try:
            async for texts in _objects(call, splitter, first, parts):
                for report in await _produce(proxy.kafka, place.cluster_id, topic, texts):
                    yield json_bytes(report) + b"\r\n"
        except ObjectTooLarge:
            yield json_bytes(HttpError(413, 413, TOO_LARGE).tree) + b"\r\n"
        except NotAnObject:
            yield json_bytes(errors.bad_request("Bad Request: the body is not a stream of JSON objects").tree) + b"\r\n"
        except TimeoutError:
            yield json_bytes(HttpError(408, 408, "The stream was idle for too long.").tree) + b"\r\n"
        except HttpError as error:
            yield json_bytes(error.tree) + b"\r\n"
        finally:
            BODIES.release(call.request.scope)

    return StreamedResponse(reports(), "application/json")


async def _objects(
    call: Call, splitter: ObjectSplitter, first: bytes, parts: AsyncIterator[bytes]
) -> AsyncIterator[list[bytes]]:
    found = list(splitter.feed(first))
    if found:
        yield found
    async for part in parts:
        found = list(splitter.feed(part))
        BODIES.hold(call.request.scope, splitter.held_bytes)
        if found:
            yield found
    splitter.finish()


async def produce_batch(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    tree = await call.tree()
    if tree is None:
        raise errors.refused_batch(EMPTY_BODY)
    if isinstance(tree, dict) and (name := unknown_field(tree, BATCH_FIELDS)) is not None:
        raise errors.unprocessable(f"Unrecognized field: {name}")
    entries = tree.get("entries") if isinstance(tree, dict) else None
    if not isinstance(entries, list) or not entries:
        raise errors.refused_batch("Empty batch.")
    if len(entries) > BATCH_MAX:
        raise errors.refused_batch("Too many entries in batch.")
    ids = [each.get("id") if isinstance(each, dict) else None for each in entries]
    if not all(isinstance(each, str) and len(each) <= IDENTIFIER_MAX and IDENTIFIER.fullmatch(each) for each in ids):
        raise errors.refused_batch("Batch entry identifier is not a valid string.")
    if len(set(ids)) < len(ids):
        raise errors.refused_batch("Batch entry IDs are not distinct.")
    reports = await _produce_trees(proxy.kafka, place.cluster_id, call.parameters["topic"], entries, ENTRY_FIELDS)
    successes = [{"id": name, **report} for name, report in zip(ids, reports, strict=True) if "message" not in report]
    for each in successes:
        each.pop("error_code")
    failures = [{"id": name, **report} for name, report in zip(ids, reports, strict=True) if "message" in report]
    return Answer({"successes": successes, "failures": failures}, 207)


async def _produce(kafka: Kafka, cluster_id: str, topic: str, texts: list[bytes]) -> list[Tree]:
    trees: list[Any] = []
    for text in texts:
        try:
            trees.append(json.loads(text))
        except (ValueError, RecursionError):
            trees.append(None)
    return await _produce_trees(kafka, cluster_id, topic, trees)


async def _produce_trees(
    kafka: Kafka, cluster_id: str, topic: str, trees: list[Any], known: frozenset[str] = RECORD_FIELDS
) -> list[Tree]:
    try:
        await require_topic(kafka, topic, None)
    except HttpError as error:
        told = HttpError(404, 40403, errors.HOSTED) if error.code == 40401 else error
        return [told.tree for _ in trees]
    prepared = await kafka.write(lambda: [_prepared(kafka, topic, each, known) for each in trees])
    ready = [each.record for each in prepared if each.record is not None]
    deliveries = Deliveries(len(ready))
    await kafka.write(lambda: deliveries.send(kafka, topic, ready))
    outcomes = iter(await deliveries.outcomes())
    return [
        _report(cluster_id, topic, each, next(outcomes)) if each.error is None else each.error.tree for each in prepared
    ]


def _report(cluster_id: str, topic: str, prepared: Prepared, outcome: Outcome) -> Tree:
    if isinstance(outcome, ClientError):
        error = errors.refusal(outcome)
        code = 413 if error.status == 413 else error.code
        return {"error_code": code, "message": error.message}
    stamp = datetime.fromtimestamp(max(outcome.timestamp, 0) / 1000, UTC)
    report: Tree = {
        "error_code": 200,
        "cluster_id": cluster_id,
        "topic_name": topic,
        "partition_id": outcome.partition,
        "offset": outcome.offset,
        "timestamp": stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    if prepared.key is not None:
        report["key"] = prepared.key
    if prepared.value is not None:
        report["value"] = prepared.value
    return report


def _prepared(kafka: Kafka, topic: str, tree: Any, known: frozenset[str]) -> Prepared:
    """In a thread: a schema may have to be asked for."""
    try:
        if not isinstance(tree, dict):
            raise errors.bad_request("Bad Request: a record is a JSON object")
        _require_known(tree, known)
        key = _part(kafka, topic, tree.get("key"), "key")
        value = _part(kafka, topic, tree.get("value"), "value")
        record = ReadyRecord(key.data, value.data, _headers(tree), _partition(tree), _timestamp(tree))
        return Prepared(record, None, key.report, value.report)
    except SerdeError as error:
        return Prepared(None, errors.bad_request(f"Bad Request: {error}"))
    except HttpError as error:
        return Prepared(None, error)
    except RegistryRefused as error:
        return Prepared(None, errors.bad_request(f"Bad Request: {error.message}"))
    except ClientError as error:
        return Prepared(None, errors.refusal(error))


def _part(kafka: Kafka, topic: str, tree: Any, part: str) -> Part:
    if tree is None:
        return Part()
    if not isinstance(tree, dict):
        raise errors.bad_request(f"Bad Request: {part} is not an object with type and data")
    _require_known(tree, PART_FIELDS)
    kind = str(tree.get("type") or "").upper()
    data = tree.get("data")
    _require_one_schema(tree, kind)
    if kind in PLAIN:
        encoded = _plain(kind, data)
        return Part(encoded, {"type": kind, "size": len(encoded or b"")})
    if kind and kind not in SCHEMA_TYPES:
        known = ", ".join((*PLAIN, "AVRO", "JSONSCHEMA", "PROTOBUF"))
        raise errors.bad_request(f"Bad Request: {kind} is not a type; there are {known}")
    serializer = _serializer(kafka, tree, kind, part)
    registered = serializer.prepared(topic).registered
    encoded = None if data is None else serializer.encode_json(topic, data)
    return Part(encoded, _schema_report(registered, len(encoded or b"")))


def _require_one_schema(tree: Tree, kind: str) -> None:
    given = [name for name in SCHEMA_CHOICES if tree.get(name) is not None]
    if len(given) > 1:
        raise errors.bad_request("Bad Request: Only one of 'schema_id', 'schema_version' or 'schema' can be used.")
    given += [name for name in ("subject", "subject_name_strategy") if tree.get(name) is not None]
    if given[-2:] == ["subject", "subject_name_strategy"]:
        raise errors.bad_request("Bad Request: Only one of 'subject_name_strategy' or 'subject' can be used.")
    if given and kind in PLAIN:
        raise errors.bad_request(f"Bad Request: 'type={kind}' cannot be used with '{given[0]}'.")


def _plain(kind: str, data: Any) -> bytes | None:
    if data is None:
        return None
    if kind == "BINARY":
        return from_base64(data)
    if kind == "STRING":
        if not isinstance(data, str):
            raise SerdeError(f"data={json.dumps(data)[:80]} is not a string.")
        return data.encode("utf-8", "surrogatepass")
    return json_bytes(data)


def _serializer(kafka: Kafka, tree: Tree, kind: str, part: str) -> Serializer:
    text, schema_id, version = tree.get("schema"), tree.get("schema_id"), tree.get("schema_version")
    for name, value, wanted in (("schema", text, str), ("schema_id", schema_id, int), ("schema_version", version, int)):
        if value is not None and not isinstance(value, wanted):
            raise errors.bad_request(f"Bad Request: {name} is not a {'string' if wanted is str else 'number'}")
    if text is not None and not kind:
        raise errors.bad_request("Bad Request: 'type' is required with 'schema'")
    strategy = str(tree.get("subject_name_strategy") or "TOPIC_NAME").upper()
    if strategy not in STRATEGIES:
        raise errors.bad_request(f"Bad Request: {strategy} is not a subject_name_strategy")
    subject = tree.get("subject")
    key = "v3", part, kind, text, schema_id, version, strategy, subject

    def make() -> Serializer:
        settings = SerdeSettings(
            strategy=STRATEGIES[strategy],
            use_id=schema_id,
            use_latest=text is None and schema_id is None and version is None,
        )
        schema = Schema(text, SCHEMA_TYPES[kind]) if text is not None else None
        return Serializer(kafka.registry, schema, settings, is_key=part == "key", subject=subject, version=version)

    return kafka.serializers.kept(key, make)


def _schema_report(registered: RegisteredSchema, size: int) -> Tree:
    report: Tree = {"type": SHOWN_TYPES[registered.schema.type], "schema_id": registered.id, "size": size}
    if registered.subject is not None:
        report["subject"] = registered.subject
    if registered.version is not None:
        report["schema_version"] = registered.version
    return report


def _require_known(tree: Tree, known: frozenset[str]) -> None:
    if (name := unknown_field(tree, known)) is not None:
        raise errors.bad_request(f"Bad Request: Unrecognized field: {name}")


def _headers(tree: Tree) -> list[tuple[str, bytes | None]]:
    listed = tree.get("headers") or []
    if not isinstance(listed, list):
        raise errors.bad_request("Bad Request: headers is not a list")
    found: list[tuple[str, bytes | None]] = []
    for each in listed:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            raise errors.bad_request("Bad Request: a header has a name and a value in base64")
        _require_known(each, HEADER_FIELDS)
        value = each.get("value")
        found.append((each["name"], None if value is None else from_base64(value)))
    return found


def _partition(tree: Tree) -> int | None:
    partition = tree.get("partition_id")
    if partition is not None and (not isinstance(partition, int) or isinstance(partition, bool)):
        raise errors.bad_request("Bad Request: partition_id is not a number")
    if partition is not None and partition < 0:
        raise errors.partition_not_found()
    return partition


def _timestamp(tree: Tree) -> int | None:
    given = tree.get("timestamp")
    time_ms = None if given is None else point_in_time_ms(given)
    if given is not None and time_ms is None:
        raise errors.bad_request("Bad Request: timestamp is not a point in time")
    return time_ms
