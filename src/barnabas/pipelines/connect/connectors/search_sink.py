"""Elasticsearch and OpenSearch sink, under Confluent's names: documents by the bulk API.

A document's id is the record's key, or topic, partition and offset with `key.ignore`; with keys, the version is the
record's offset. So a turn that is done again changes nothing: the server refuses an older version.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from barnabas.pipelines.connect.config import Definition, Setting, at_least, not_empty, one_of
from barnabas.pipelines.connect.connector import BadRecords, Settings, SinkConnector
from barnabas.pipelines.connect.connectors.http_calls import TIMEOUTS, Caller, basic, check_url
from barnabas.pipelines.connect.converters.json import JsonConverter
from barnabas.pipelines.connect.data.java_text import java_text
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.data.schema import Struct
from barnabas.pipelines.connect.errors import ConnectError, DataError, RetriableError

CONFLICT, GONE = 409, 404


class SearchSink(SinkConnector):
    doc = "Records as documents of Elasticsearch or OpenSearch."
    definition = Definition(
        [
            Setting("connection.url", "LIST", doc="Servers, as http://host:9200", check=not_empty),
            Setting("connection.username", "STRING", "", "MEDIUM", "Of the servers."),
            Setting("connection.password", "PASSWORD", "", "MEDIUM", "Of the servers."),
            Setting("key.ignore", "BOOLEAN", False, doc="Whether ids are topic+partition+offset instead of the key."),
            Setting("schema.ignore", "BOOLEAN", False, "LOW", "Kept for configurations that have it."),
            Setting("type.name", "STRING", "_doc", "LOW", "Kept for configurations that have it."),
            Setting("write.method", "STRING", "insert", "LOW", "insert or upsert.",
                    one_of("insert", "upsert", ignore_case=True)),
            Setting("behavior.on.null.values", "STRING", "fail", "LOW", "ignore, delete or fail.",
                    one_of("ignore", "delete", "fail", ignore_case=True)),
            Setting("behavior.on.malformed.documents", "STRING", "fail", "LOW", "ignore, warn or fail: documents that "
                    "the server refuses.", one_of("ignore", "warn", "fail", ignore_case=True)),
            Setting("drop.invalid.message", "BOOLEAN", False, "LOW", "Whether records without a usable key are left "
                    "out."),
            Setting("batch.size", "INT", 2000, "MEDIUM", "Documents of a request.", at_least(1)),
            *TIMEOUTS,
        ]
    )  # fmt: skip

    def configure(self) -> None:
        for url in self.values["connection.url"]:
            check_url("connection.url", url)
        user, password = self.values["connection.username"], self.values["connection.password"]
        self._headers = {"Content-Type": "application/x-ndjson"} | basic(user, password)
        self._null = self.values["behavior.on.null.values"].lower()
        self._malformed = self.values["behavior.on.malformed.documents"].lower()
        self._upsert = self.values["write.method"].lower() == "upsert"
        self._converter = JsonConverter({"schemas.enable": "false", "decimal.format": "NUMERIC"}, is_key=False)

    @classmethod
    def task_settings(cls, settings: Settings, tasks_max: int) -> list[dict[str, str]]:
        return [dict(settings)] * tasks_max

    def open(self) -> None:
        self._caller = Caller(self.values["read.timeout.ms"])

    def close(self) -> None:
        if hasattr(self, "_caller"):
            self._caller.close()

    def put(self, records: Sequence[Record]) -> None:
        bad: list[tuple[Record, Exception]] = []
        ready: list[tuple[Record, bytes]] = []
        for record in records:
            try:
                action = self._action(record)
            except DataError as error:
                if self.values["drop.invalid.message"]:
                    self.log.warning("%s; it is left out", error)
                else:
                    bad.append((record, error))
                continue
            if action is not None:
                ready.append((record, action))
        size = self.values["batch.size"]
        for at in range(0, len(ready), size):
            bad += self._send(ready[at : at + size])
        if bad:
            raise BadRecords(bad)

    def _action(self, record: Record) -> bytes | None:
        """The lines of one document."""
        if record.value is None:
            if self._null == "ignore":
                return None
            if self._null == "fail":
                raise DataError(f"a record of {record.topic} has no value, and behavior.on.null.values is fail")
        target: dict[str, Any] = {"_index": record.topic.lower(), "_id": self._id(record)}
        versioned = not self.values["key.ignore"] and not self._upsert and record.offset is not None
        if versioned:
            target |= {"version": record.offset, "version_type": "external"}
        if record.value is None:
            return dumped({"delete": target})
        if not isinstance(record.value, Struct | dict):
            raise DataError(f"a record of {record.topic} has no fields to make a document of")
        document = self._converter.to_bytes(record.topic, record.value_schema, record.value) or b"{}"
        if self._upsert:
            return dumped({"update": target}) + b'{"doc":' + document + b',"doc_as_upsert":true}\n'
        return dumped({"index": target}) + document + b"\n"

    def _id(self, record: Record) -> str:
        if self.values["key.ignore"]:
            topic, partition, offset = record.original or (record.topic, record.partition or 0, record.offset or 0)
            return f"{topic}+{partition}+{offset}"
        if record.key is None or isinstance(record.key, Struct | dict | list):
            raise DataError(f"the key of a record of {record.topic} is no document id: set key.ignore=true, or make it "
                            "a text or a number")  # fmt: skip
        return java_text(record.key)

    def _send(self, ready: list[tuple[Record, bytes]]) -> list[tuple[Record, Exception]]:
        """The first server that answers takes them."""
        body = b"".join(action for _, action in ready)
        errors: list[RetriableError] = []
        for url in self.values["connection.url"]:
            try:
                answer = self._caller.call("POST", f"{url.rstrip('/')}/_bulk", body, self._headers)
            except RetriableError as error:
                errors.append(error)
                continue
            if answer.status >= 300:
                raise ConnectError(f"{url} refuses the request with {answer.status}: {answer.text}")
            return self._judged(ready, json.loads(answer.body))
        raise errors[-1]

    def _judged(self, ready: list[tuple[Record, bytes]], answer: Any) -> list[tuple[Record, Exception]]:
        if not answer.get("errors"):
            return []
        bad: list[tuple[Record, Exception]] = []
        for (record, _), item in zip(ready, answer["items"], strict=True):
            ((kind, found),) = item.items()
            status = found.get("status", 200)
            if status < 300 or status == CONFLICT or (status == GONE and kind == "delete"):
                continue
            reason = json.dumps(found.get("error"), ensure_ascii=False)[:300]
            if status == 429 or status >= 500:
                raise RetriableError(f"a document of {record.topic} gets {status}: {reason}")
            if self._malformed == "fail":
                bad.append((record, ConnectError(f"a document of {record.topic} gets {status}: {reason}")))
            elif self._malformed == "warn":
                self.log.warning("document %s of %s is left out: %s", found.get("_id"), record.topic, reason)
        return bad


def dumped(tree: Any) -> bytes:
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
