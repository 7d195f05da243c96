"""PRINT: records of any topic as lines, with a guess at what their bytes are."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

from barnabas.client.records import ConsumerRecord
from barnabas.pipelines.sql.compute.dates import datetime_of, format_moment
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.server.kafka import EARLIEST, LATEST, Kafka

POLL_MS = 200


def printed(kafka: Kafka, statement: tree.Print, registry: str | None, stopped: Any) -> Iterator[str]:
    """Lines, until the limit or until `stopped` is set."""
    topic = statement.topic
    if not kafka.partitions(topic):
        close = [name for name, _, _ in kafka.topics() if name.lower() == topic.lower()]
        hint = f" Did you mean '{close[0]}'?" if close else ""
        raise SqlError(f"Could not find topic '{topic}', or the KSQL user does not have permissions to list it.{hint}")
    start = kafka.offsets([topic], EARLIEST if statement.from_beginning else LATEST)
    return _lines(kafka, statement, registry, stopped, start)


def _lines(kafka: Kafka, statement: tree.Print, registry: str | None, stopped: Any, start: Any) -> Iterator[str]:
    shown = seen = 0
    formats: dict[str, str] = {}
    with kafka.consumer() as consumer:
        consumer.assign(start)
        while not stopped.is_set() and (statement.limit is None or shown < statement.limit):
            for record in consumer.poll(POLL_MS):
                seen += 1
                if (seen - 1) % statement.interval or (statement.limit is not None and shown >= statement.limit):
                    continue
                key, key_kind = guessed(record.key, registry, is_key=True)
                value, value_kind = guessed(record.value, registry, is_key=False)
                for what, kind in (("Key", key_kind), ("Value", value_kind)):
                    if formats.get(what) != kind:
                        formats[what] = kind
                        yield f"{what} format: {kind}\n"
                yield line(record, key, value)
                shown += 1


def line(record: ConsumerRecord, key: str, value: str) -> str:
    moment = format_moment(datetime_of(max(record.timestamp, 0)), "yyyy/MM/dd HH:mm:ss.SSS X")
    return f"rowtime: {moment}, key: {key}, value: {value}, partition: {record.partition}\n"


def guessed(data: bytes | None, registry: str | None, *, is_key: bool) -> tuple[str, str]:
    if data is None:
        return "<null>", "¯\\_(ツ)_/¯ - no data processed"
    if registry and len(data) > 5 and data[:1] == b"\0":
        from barnabas.client.serdes import Deserializer, RegistryRefused, SerdeError, shared_registry

        try:
            found = Deserializer(shared_registry(registry), is_key=is_key).open(data)
            shown = json.dumps(found.codec.to_json(found.body), ensure_ascii=False)
            return shown, {"JSON": "JSON_SR"}.get(found.registered.schema.type, found.registered.schema.type)
        except (SerdeError, RegistryRefused):
            pass
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    if text and text.isprintable():
        try:
            if isinstance(json.loads(text), (dict, list)):
                return text, "JSON or KAFKA_STRING"
        except ValueError:
            pass
        return text, "KAFKA_STRING"
    if len(data) == 8:
        return str(struct.unpack(">q", data)[0]), "KAFKA_BIGINT or KAFKA_DOUBLE"
    if len(data) == 4:
        return str(struct.unpack(">i", data)[0]), "KAFKA_INT"
    return text or data.hex(), "KAFKA_STRING" if text else "BYTES"
