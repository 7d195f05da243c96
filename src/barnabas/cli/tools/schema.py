"""`barnabas schema check FILE --against TOPIC`: which stored records of a topic could a new schema not read.

The records are read from the log and decoded, each with the schema it was written with; the new schema reads them or
does not. That is more than a registry knows: it compares schemas, and old versions may have no record left.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from barnabas.cli.connect import CONNECTION, OUTPUT, settings, wants_json
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, Positional, option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.client.records import ConsumerRecord
    from barnabas.client.serdes import Deserializer, Registry

TYPES = {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF"}
ENDINGS = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
SHOWN_MAX = 20

CHECK = Parser(
    name="check",
    summary="Tells which stored records of a topic a new schema could not read.",
    beyond_kafka=True,
    help_exit=0,
    positionals=(Positional(name="file", help="The new schema: .avsc, .json or .proto.", completes="file"),),
    options=(
        option("--against", "-a", takes="topic", help="The topic whose records are read.", completes="topic"),
        option(
            "--registry",
            "-r",
            takes="url",
            default="http://localhost:8081",
            help="Where the records' schemas are.",
        ),
        option("--type", "-t", takes="type", choices=tuple(TYPES), help="If the file's name does not tell."),
        option("--keys", help="Check keys instead of values."),
        option("--lines", "-n", takes="count", kind=int, help="Only the last so many records of each partition."),
        option("--message", takes="name", help="The message of a .proto file that is meant, if not the first."),
    ),
)
PARSER = Parser(
    name="schema",
    summary="Checks schemas against records.",
    beyond_kafka=True,
    help_exit=0,
    options=(*CONNECTION, OUTPUT),
    commands=(CHECK,),
)


def run(parsed: Parsed) -> int:
    from barnabas.client.serdes import open_registry

    parsed.require("against")
    if len(parsed.rest) != 1:
        raise UsageError("One file with a schema is needed.")
    check = Check(open_registry(parsed.text("registry") or ""), parsed)
    for record in _records(parsed):
        check.look_at(record)
    check.print(as_json=wants_json(parsed))
    return 1 if check.failures else 0


def _records(parsed: Parsed) -> Iterator[ConsumerRecord]:
    from barnabas.cli.records.reading import end_offsets, partitions_of, read, start_offsets
    from barnabas.client.cluster import Cluster
    from barnabas.client.fetcher import Fetcher, FetchSettings

    begin = f"-{parsed.number('lines')}" if "lines" in parsed else "beginning"
    with Cluster(settings(parsed, client_id="barnabas-schema", missing=None)) as cluster:
        partitions = partitions_of(cluster, [parsed.text("against") or ""])
        starts, ends = start_offsets(cluster, partitions, begin, 0), end_offsets(cluster, partitions, "read_committed")
        with Fetcher(cluster, FetchSettings(isolation="read_committed")) as fetcher:
            for some in read(fetcher, starts, until=ends):
                yield from some


class Check:
    """Reads each record with its own schema and with the new one, and counts by version what fails."""

    def __init__(self, registry: Registry, parsed: Parsed) -> None:
        from barnabas.client.serdes import Deserializer, Schema, SerdeError, codec_of

        path = parsed.rest[0]
        self._topic = parsed.text("against") or ""
        self._is_key = "keys" in parsed
        self._schema = Schema(_text(path), _type(path, parsed.text("type")))
        try:
            self._codec: Any = codec_of(self._schema, message=parsed.text("message") or "", logical_types=False)
        except SerdeError as error:
            raise ToolFailed(f"{path}: {error}") from None
        self._deserializer: Deserializer = Deserializer(registry, is_key=self._is_key, logical_types=False)
        self.count = 0
        self.failures: list[dict[str, Any]] = []
        self.by_schema: dict[str, list[int]] = {}  # schema id: records, and those that cannot be read

    def look_at(self, record: ConsumerRecord) -> None:
        from barnabas.client.serdes import RegistryRefused, SerdeError

        data = record.key if self._is_key else record.value
        if data is None:
            return
        self.count += 1
        schema_id, why = "none", None
        try:
            opened = self._deserializer.open(bytes(data), record.headers)
            schema_id = str(opened.registered.id if opened.registered.id >= 0 else opened.registered.guid)
            self._read(opened.codec, opened.body, opened.registered.schema.type)
        except (SerdeError, RegistryRefused) as error:
            why = str(error)
        counted = self.by_schema.setdefault(schema_id, [0, 0])
        counted[0] += 1
        if why is not None:
            counted[1] += 1
            place = {"partition": record.partition, "offset": record.offset}
            self.failures.append({**place, "schema_id": schema_id, "reason": why})

    def _read(self, written: Any, body: bytes, kind: str) -> None:
        from barnabas.client.serdes import SerdeError

        if kind != self._schema.type:
            raise SerdeError(f"The record was written as {kind}, and the schema is {self._schema.type}.")
        if kind == "AVRO":
            written.decode_as(body, self._codec)
        else:
            self._codec.decode(body)

    def print(self, *, as_json: bool) -> None:
        if as_json:
            from barnabas.cli.output import print_json

            schemas = {name: {"records": all_, "unreadable": bad} for name, (all_, bad) in self.by_schema.items()}
            print_json({"topic": self._topic, "records": self.count, "schemas": schemas, "unreadable": self.failures})
            return
        for name, (records, bad) in sorted(self.by_schema.items()):
            of = "records without a schema" if name == "none" else f"records of schema {name}"
            print(f"{records} {of}: {f'{bad} cannot be read' if bad else 'all can be read'}")
        for each in self.failures[:SHOWN_MAX]:
            print(f"{self._topic}-{each['partition']}@{each['offset']}: {each['reason']}")
        if len(self.failures) > SHOWN_MAX:
            print(f"... and {len(self.failures) - SHOWN_MAX} more; --output json lists them all")
        if not self.failures:
            print(f"The schema reads all {self.count} records of {self._topic}.")
        sys.stdout.flush()


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        raise ToolFailed(f"{path} is not text.") from None


def _type(path: str, given: str | None) -> str:
    if given is not None:
        return TYPES[given]
    ending = path[path.rfind(".") :].lower() if "." in path else ""
    if ending not in ENDINGS:
        raise UsageError(f"{path} does not tell which type of schema it is: give --type {', '.join(TYPES)}.")
    return ENDINGS[ending]
