"""HTTP sink under Confluent's names: records as the bodies of requests, one by one or several together.

At least once: a turn that fails is done again from its beginning. Statuses 408, 429 and 5xx, and a server that is away,
are tried again by the plane; other statuses from 400 on make the records bad, and `errors.tolerance` decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from barnabas.pipelines.connect.config import Definition, Setting, at_least, one_of
from barnabas.pipelines.connect.connector import BadRecords, Settings, SinkConnector
from barnabas.pipelines.connect.connectors.http_calls import TIMEOUTS, Caller, basic, check_url
from barnabas.pipelines.connect.converters.json import JsonConverter
from barnabas.pipelines.connect.data.java_text import java_text
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.errors import ConfigError, ConnectError, DataError


class HttpSink(SinkConnector):
    doc = "Records as bodies of HTTP requests."
    definition = Definition(
        [
            Setting("http.api.url", doc="Where to; ${topic} and ${key} are replaced."),
            Setting("request.method", "STRING", "POST", doc="POST, PUT, PATCH or DELETE.",
                    check=one_of("POST", "PUT", "PATCH", "DELETE", ignore_case=True)),
            Setting("request.body.format", "STRING", "json", "MEDIUM", "json or string.",
                    one_of("json", "string", ignore_case=True)),
            Setting("headers", "STRING", "", "MEDIUM", "Name:value pairs with header.separator between them."),
            Setting("header.separator", "STRING", "|", "LOW", "Between headers."),
            Setting("batch.max.size", "INT", 1, doc="How many records a request has.", check=at_least(1)),
            Setting("batch.prefix", "STRING", "", doc="Before the records of a request."),
            Setting("batch.suffix", "STRING", "", doc="Behind them."),
            Setting("batch.separator", "STRING", ",", doc="Between them."),
            Setting("behavior.on.null.values", "STRING", "ignore", "MEDIUM", "ignore, fail or delete.",
                    one_of("ignore", "fail", "delete", ignore_case=True)),
            Setting("auth.type", "STRING", "NONE", doc="NONE or BASIC.",
                    check=one_of("NONE", "BASIC", ignore_case=True)),
            Setting("connection.user", "STRING", "", doc="Of BASIC."),
            Setting("connection.password", "PASSWORD", "", doc="Of BASIC."),
            *TIMEOUTS,
        ]
    )  # fmt: skip

    def configure(self) -> None:
        self._url = self.values["http.api.url"]
        check_url("http.api.url", self._url)
        self._json = self.values["request.body.format"].lower() == "json"
        self._headers = {"Content-Type": "application/json" if self._json else "text/plain; charset=utf-8"}
        separator = self.values["header.separator"]
        for pair in filter(None, self.values["headers"].split(separator)):
            name, found, value = pair.partition(":")
            if not found:
                raise ConfigError("has a header without a colon", "headers", pair)
            self._headers[name.strip()] = value.strip()
        if self.values["auth.type"].upper() == "BASIC":
            self._headers |= basic(self.values["connection.user"], self.values["connection.password"])
        self._null = self.values["behavior.on.null.values"].lower()
        self._converter = JsonConverter({"schemas.enable": "false", "decimal.format": "NUMERIC"}, is_key=False)
        # An empty value is one that a file of properties cannot show; JSON records that go together are an array.
        self._around = self.given.get("batch.prefix", ""), self.given.get("batch.suffix", "")
        if self._json and self.values["batch.max.size"] > 1 and "batch.prefix" not in self.given:
            self._around = "[", "]"

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
        for method, url, run in self._runs(records):
            body = None if method == "DELETE" and run[0].value is None else self._body(run)
            answer = self._caller.call(method, url, body, self._headers)
            if answer.status >= 400:
                error = ConnectError(f"{method} {url} gives {answer.status}: {answer.text}")
                bad += [(record, error) for record in run]
        if bad:
            raise BadRecords(bad)

    def _runs(self, records: Sequence[Record]) -> Iterator[tuple[str, str, list[Record]]]:
        """Neighbours that go to the same place, as many as a request may have."""
        method = self.values["request.method"].upper()
        run: list[Record] = []
        place = ""
        for record in records:
            if record.value is None and self._null == "fail":
                raise DataError(f"a record of {record.topic} has no value, and behavior.on.null.values is fail")
            if record.value is None and self._null == "ignore":
                continue
            url = self._place(record)
            if run and (url != place or len(run) >= self.values["batch.max.size"] or record.value is None):
                yield method, place, run
                run = []
            if record.value is None:
                yield "DELETE", url, [record]
                continue
            place = url
            run.append(record)
        if run:
            yield method, place, run

    def _place(self, record: Record) -> str:
        key = "" if record.key is None else java_text(record.key)
        given = {"topic": record.topic, "key": key}
        return re.sub(r"\$\{(topic|key)\}", lambda found: quote(given[found[1]], safe=""), self._url)

    def _body(self, run: list[Record]) -> bytes:
        before, behind = self._around
        between = self.given.get("batch.separator", ",").encode()
        return before.encode() + between.join(map(self._one, run)) + behind.encode()

    def _one(self, record: Record) -> bytes:
        if not self._json:
            return record.value if isinstance(record.value, bytes) else java_text(record.value).encode()
        return self._converter.to_bytes(record.topic, record.value_schema, record.value) or b"null"
