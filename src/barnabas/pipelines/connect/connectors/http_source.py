"""HTTP source, under the names of the common open one: asks an address again and again, and takes what is new.

`http.response.list.pointer` leads to the list of records in the answer, `http.response.record.offset.pointer` to what
identifies a record, as `key=/id,timestamp=/updated`. `${offset.NAME}` in the address or the parameters is the last
record's. A record that comes again is left out: what follows the last known record in the list is new, and all of the
list if that record is not in it. Exactly once as far as the server's answers allow.
"""

from __future__ import annotations

import decimal
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from barnabas.pipelines.connect.config import Definition, Setting, at_least, not_empty, one_of
from barnabas.pipelines.connect.connector import SourceConnector, offset_key
from barnabas.pipelines.connect.connectors.http_calls import TIMEOUTS, Caller, basic, check_url
from barnabas.pipelines.connect.converters.json import read_value
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.errors import ConfigError, ConnectError, DataError


class HttpSource(SourceConnector):
    doc = "Answers of an HTTP API."
    definition = Definition(
        [
            Setting("http.request.url", doc="The address that is asked."),
            Setting("http.request.method", "STRING", "GET", doc="GET or POST.", check=one_of("GET", "POST")),
            Setting("http.request.headers", "STRING", "", "MEDIUM", "Name: value pairs with commas between them."),
            Setting("http.request.params", "STRING", "", "MEDIUM", "name=value&name=value"),
            Setting("http.request.body", "STRING", "", "MEDIUM", "The body of a POST."),
            Setting("http.auth.type", "STRING", "None", "MEDIUM", "None or Basic.",
                    one_of("None", "Basic", ignore_case=True)),
            Setting("http.auth.user", "STRING", "", "MEDIUM", "Of Basic."),
            Setting("http.auth.password", "PASSWORD", "", "MEDIUM", "Of Basic."),
            Setting("http.response.list.pointer", "STRING", "", doc="JSON pointer to the records; / for the whole."),
            Setting("http.response.record.pointer", "STRING", "", doc="JSON pointer within a record."),
            Setting("http.response.record.offset.pointer", "STRING", "", doc="name=pointer pairs."),
            Setting("http.offset.initial", "STRING", "", "MEDIUM", "name=value pairs before the first record."),
            Setting("http.timer.interval.millis", "LONG", 60_000, "MEDIUM", "Time between two requests.", at_least(1)),
            Setting("kafka.topic", doc="Where records go.", check=not_empty),
            *TIMEOUTS,
        ]
    )  # fmt: skip

    def configure(self) -> None:
        self._url = self.values["http.request.url"]
        check_url("http.request.url", re.sub(r"\$\{[^}]*\}", "0", self._url))
        self._pointers = pairs("http.response.record.offset.pointer", self.values)
        self._initial = pairs("http.offset.initial", self.values)
        self._headers = {"Accept": "application/json"}
        for pair in filter(None, self.values["http.request.headers"].split(",")):
            name, found, value = pair.partition(":")
            if not found:
                raise ConfigError("has a header without a colon", "http.request.headers", pair)
            self._headers[name.strip()] = value.strip()
        if self.values["http.auth.type"].lower() == "basic":
            self._headers |= basic(self.values["http.auth.user"], self.values["http.auth.password"])
        self._partition = {"url": self._url}
        self._asked = False

    @property
    def pause_ms(self) -> int:
        return int(self.values["http.timer.interval.millis"])

    def open(self) -> None:
        self._caller = Caller(self.values["read.timeout.ms"])

    def close(self) -> None:
        if hasattr(self, "_caller"):
            self._caller.close()

    def poll(self) -> Sequence[Record]:
        if self._asked:
            return []
        self._asked = True
        last = self.offset(self._partition)
        body = self._answer(last or self._initial)
        if not self._pointers:
            return self._whole(body, last)
        found = [(self._identity(each), each) for each in self._listed(body)]
        seen = [at for at, (identity, _) in enumerate(found) if last is not None and identity == last]
        new = found[seen[-1] + 1 :] if seen else found
        return [self._record(each, identity) for identity, each in new]

    def _answer(self, offset: Mapping[str, Any]) -> bytes:
        def filled(text: str, quoted: bool) -> str:
            def value(found: re.Match[str]) -> str:
                given = str(offset.get(found[1], ""))
                return quote(given, safe="") if quoted else given

            return re.sub(r"\$\{offset\.([^}]+)\}", value, text)

        url = filled(self._url, quoted=True)
        given = [pair.partition("=") for pair in filter(None, self.values["http.request.params"].split("&"))]
        if given:
            parameters = urlencode([(name, filled(value, quoted=False)) for name, _, value in given])
            url += ("&" if "?" in url else "?") + parameters
        method = self.values["http.request.method"]
        body = filled(self.values["http.request.body"], quoted=False).encode() if method == "POST" else None
        answer = self._caller.call(method, url, body, self._headers)
        if answer.status >= 300:
            raise ConnectError(f"{method} {url} gives {answer.status}: {answer.text}")
        return answer.body

    def _whole(self, body: bytes, last: Mapping[str, Any] | None) -> list[Record]:
        """Without pointers to identities, an answer is new if it is another one than before."""
        mark = {"sha256": hashlib.sha256(body).hexdigest()}
        if last == mark:
            return []
        return [self._record(each, mark) for each in self._listed(body)]

    def _listed(self, body: bytes) -> list[Any]:
        try:
            tree = json.loads(body, parse_float=decimal.Decimal)
        except (ValueError, RecursionError) as error:
            raise DataError(f"the answer of {self._url} is no JSON: {error}") from None
        found = pointed(tree, self.values["http.response.list.pointer"])
        return found if isinstance(found, list) else [found]

    def _identity(self, item: Any) -> dict[str, Any]:
        found = {name: pointed(item, pointer) for name, pointer in self._pointers.items()}
        return {name: str(value) if isinstance(value, decimal.Decimal) else value for name, value in found.items()}

    def _record(self, item: Any, offset: dict[str, Any]) -> Record:
        self.offsets[offset_key(self._partition)] = offset
        value = read_value(None, pointed(item, self.values["http.response.record.pointer"]))
        key = offset.get("key")
        return Record(
            self.values["kafka.topic"], value, key=None if key is None else str(key), source_partition=self._partition,
            source_offset=offset,
        )  # fmt: skip


def pairs(name: str, values: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for pair in filter(None, values[name].split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError("must be name=value pairs with commas between them", name, values[name])
        found[key.strip()] = value.strip()
    return found


def pointed(tree: Any, pointer: str) -> Any:
    found = tree
    for part in filter(None, pointer.split("/")):
        name = part.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, ValueError, TypeError):
            raise DataError(f"the answer has nothing at {pointer}") from None
    return found
