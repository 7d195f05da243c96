"""The console tools of records with schemas, as the courses type them: over a node and a registry of ours."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from barnabas.testing.registry import Registry
from tests.tools.clusters import our_tool

SENSOR = (
    '{"type":"record","name":"Sensor","fields":[{"name":"id","type":"string"},{"name":"value","type":["null","long"]}]}'
)
WITH_UNIT = SENSOR[:-2] + ',{"name":"unit","type":"string"}]}'
WITH_DEFAULT = SENSOR[:-2] + ',{"name":"unit","type":"string","default":"C"}]}'
_numbers = itertools.count()


class Terminal:
    def __init__(self, node: Node, registry: Registry) -> None:
        self.node, self.registry = node, registry
        self.topic = f"plant-{next(_numbers)}"

    def produce(self, kind: str, lines: str, *properties: str) -> tuple[str, int]:
        _, said, code = our_tool(f"kafka-{kind}-console-producer", self._words(properties), lines)
        return said, code

    def consume(self, kind: str, *properties: str, count: int = 1, more: tuple[str, ...] = ()) -> tuple[str, str, int]:
        words = ["--from-beginning", "--max-messages", str(count), *more]
        return our_tool(f"kafka-{kind}-console-consumer", [*self._words(properties), *words], None)

    def _words(self, properties: tuple[str, ...]) -> list[str]:
        given = [f"schema.registry.url={self.registry.url}", *properties]
        named = [word for each in given for word in ("--property", each)]
        return ["--topic", self.topic, "--bootstrap-server", self.node.bootstrap_servers, *named]


@pytest.fixture(scope="module")
def services() -> Iterator[tuple[Node, Registry]]:
    with Node() as node, Registry(node.bootstrap_servers) as registry:
        yield node, registry


@pytest.fixture
def terminal(services: tuple[Node, Registry]) -> Terminal:
    return Terminal(*services)


def test_a_schema_evolves_as_in_the_course(terminal: Terminal) -> None:
    first = '{"id":"t1","value":{"long":999}}'
    assert terminal.produce("avro", first, f"value.schema={SENSOR}")[1] == 0
    said, code = terminal.produce("avro", '{"id":"t1","value":null,"unit":"F"}', f"value.schema={WITH_UNIT}")
    assert code == 1
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in said
    assert "Traceback" not in said
    assert terminal.produce("avro", '{"id":"t1","value":null,"unit":"F"}', f"value.schema={WITH_DEFAULT}")[1] == 0
    printed, said, code = terminal.consume("avro", count=2)
    assert printed.splitlines() == [first, '{"id":"t1","value":null,"unit":"F"}']
    assert (said.splitlines()[-1], code) == ("Processed a total of 2 messages", 0)


def test_keys_are_avro_too_or_text(terminal: Terminal) -> None:
    value = '{"id":"t1","value":null}'
    keyed = ("parse.key=true", "key.separator=|", f"value.schema={SENSOR}")
    assert terminal.produce("avro", f'"k1"|{value}\n', *keyed, 'key.schema="string"')[1] == 0
    assert terminal.consume("avro", "print.key=true", "key.separator=|")[0] == f'"k1"|{value}\n'
    text = ("key.serializer=org.apache.kafka.common.serialization.StringSerializer",)
    terminal.topic += "-text"
    assert terminal.produce("avro", f"k1|{value}\n", *keyed, *text)[1] == 0
    read = ("print.key=true", "key.separator=|", "key.deserializer=StringDeserializer")
    assert terminal.consume("avro", *read)[0] == f"k1|{value}\n"


def test_json_schema(terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{"type":"object","properties":{"n":{"type":"integer"}}}')
    assert terminal.produce("json-schema", '{"n": 5}\n{"n": 6}', f"value.schema.file={path}")[1] == 0
    said, code = terminal.produce("json-schema", '{"n": "x"}', f"value.schema.file={path}")
    assert (said.splitlines()[-1], code) == (
        'Line number 1 does not fit the schema: The value does not fit the JSON schema at /n: "x" is not of type '
        '"integer"',
        1,
    )
    assert terminal.consume("json-schema", count=2)[0] == '{"n":5}\n{"n":6}\n'


def test_protobuf(terminal: Terminal) -> None:
    schema = 'syntax = "proto3"; message Reading { string id = 1; int64 value = 2; repeated string tags = 3; }'
    assert terminal.produce("protobuf", '{"id":"t1","value":"5"}', f"value.schema={schema}")[1] == 0
    assert terminal.consume("protobuf")[0] == '{"id":"t1","value":"5","tags":[]}\n'


def test_the_plain_tools_know_confluents_classes(terminal: Terminal) -> None:
    words = ["--topic", terminal.topic, "--bootstrap-server", terminal.node.bootstrap_servers]
    url = ["--property", f"schema.registry.url={terminal.registry.url}"]
    reader = ["--line-reader", "io.confluent.kafka.formatter.AvroMessageReader"]
    written = our_tool("kafka-console-producer", [*words, *url, *reader, "--property", 'value.schema="int"'], "5\n")
    assert written[2] == 0
    formatter = ["--formatter", "io.confluent.kafka.formatter.AvroMessageFormatter"]
    read = our_tool("kafka-console-consumer", [*words, *url, *formatter, "--from-beginning", "--max-messages=1"], None)
    assert read[0] == "5\n"


def test_tail_decodes_what_has_a_schema_and_shows_the_rest(terminal: Terminal) -> None:
    assert terminal.produce("avro", '{"id":"t1","value":{"long":7}}', f"value.schema={SENSOR}")[1] == 0
    settings = ClientSettings.from_properties({}, bootstrap_servers=terminal.node.bootstrap_servers)
    with Producer(settings) as producer:
        producer.send(terminal.topic, b"plain").result(60)
    words = [terminal.topic, "--bootstrap-server", terminal.node.bootstrap_servers, "--lines=9", "--exit"]
    decoded = [f"--decode={terminal.registry.url}", "--output=json"]
    printed, _, code = our_tool("barnabas", ["tail", *words, *decoded], None)
    assert code == 0
    assert [json.loads(line)["value"] for line in printed.splitlines()] == ['{"id":"t1","value":{"long":7}}', "plain"]


@pytest.mark.parametrize(
    ("line", "properties", "said"),
    [
        ("{", (f"value.schema={SENSOR}",), "Error deserializing json on line number 1: '{'"),
        ('{"id":"a","value":5}', (f"value.schema={SENSOR}",), 'value should be one of null, {"long": ...}, not 5.'),
        ("{}", ('value.schema={"type":"recrod"}',), "(error code 42201)"),
        ("{}", (), "One of value.schema, value.schema.file and value.schema.id is needed."),
        ("{}", ("value.schema.file=/nowhere.avsc",), "value.schema.file /nowhere.avsc cannot be read"),
        ("{}", ("value.schema.id=99999",), "Schema 99999 not found (error code 40403)"),
        ('"k" 1', ('value.schema="int"', "parse.key=true", "key.separator= "), "One of key.schema"),
    ],
)
def test_mistakes_are_told_in_a_sentence(terminal: Terminal, line: str, properties: tuple[str, ...], said: str) -> None:
    told, code = terminal.produce("avro", line, *properties)
    assert code == 1
    assert said in told
    assert "Traceback" not in told


def test_a_record_without_a_schema_ends_the_reading_or_is_left_out(terminal: Terminal) -> None:
    settings = ClientSettings.from_properties({}, bootstrap_servers=terminal.node.bootstrap_servers)
    with Producer(settings) as producer:
        producer.send(terminal.topic, b"plain").result(60)
    assert terminal.produce("avro", "5", 'value.schema="int"')[1] == 0
    _, said, code = terminal.consume("avro", count=2)
    assert code == 1
    assert f"The record {terminal.topic}-0@0 cannot be printed: The bytes do not begin with the id of a schema" in said
    printed, _, code = terminal.consume("avro", count=2, more=("--skip-message-on-error",))
    assert (printed, code) == ("5\n", 0)


def check(terminal: Terminal, path: Path, *more: str) -> tuple[str, str, int]:
    words = ["schema", "check", str(path), "--against", terminal.topic, "--registry", terminal.registry.url]
    return our_tool("barnabas", [*words, "--bootstrap-server", terminal.node.bootstrap_servers, *more], None)


def test_a_new_schema_is_checked_against_the_records_that_are_there(terminal: Terminal, tmp_path: Path) -> None:
    assert terminal.produce("avro", '{"id":"t1","value":{"long":7}}', f"value.schema={SENSOR}")[1] == 0
    assert terminal.produce("avro", '{"id":"t2","value":null,"unit":"F"}', f"value.schema={WITH_DEFAULT}")[1] == 0
    path = tmp_path / "new.avsc"
    path.write_text(WITH_DEFAULT)
    printed, _, code = check(terminal, path)
    assert (printed.splitlines()[-1], code) == (f"The schema reads all 2 records of {terminal.topic}.", 0)
    path.write_text(WITH_UNIT)
    printed, _, code = check(terminal, path)
    assert code == 1
    assert f"{terminal.topic}-0@0: The Avro schemas do not go together" in printed
    assert "1 cannot be read" in printed
    printed, _, code = check(terminal, path, "--output=json")
    told = json.loads(printed)
    assert (told["records"], [each["offset"] for each in told["unreadable"]], code) == (2, [0], 1)
    assert check(terminal, path, "--lines=1")[2] == 0


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("new.avsc", "{", "The Avro schema is not valid"),
        ("new.proto", "message", "The Protobuf schema is not valid"),
        ("new.txt", "{}", "does not tell which type of schema it is"),
        ("missing.avsc", None, "cannot be used: No such file"),
    ],
)
def test_schemas_that_are_none(terminal: Terminal, tmp_path: Path, name: str, text: str | None, said: str) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    _, told, code = check(terminal, path)
    assert code == 1
    assert said in told
