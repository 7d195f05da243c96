"""`kafka-protobuf-console-producer`: each line of stdin is a record in JSON, written under a schema (Protobuf)."""

from __future__ import annotations

from dataclasses import replace

from barnabas.cli.options import Parsed
from barnabas.cli.tools import console_producer

PARSER = replace(
    console_producer.PARSER,
    name="protobuf-console-producer",
    summary="Reads lines of JSON from stdin and sends each of them as a record under a schema (Protobuf).",
    beyond_kafka=True,
)


def run(parsed: Parsed) -> int:
    return console_producer.run(parsed, schema_type="PROTOBUF")
