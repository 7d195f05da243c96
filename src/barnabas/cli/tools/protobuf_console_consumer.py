"""`kafka-protobuf-console-consumer`: the records of topics as JSON, read with their schemas (Protobuf)."""

from __future__ import annotations

from dataclasses import replace

from barnabas.cli.options import Parsed
from barnabas.cli.tools import console_consumer

PARSER = replace(
    console_consumer.PARSER,
    name="protobuf-console-consumer",
    summary="Prints the records of topics as JSON, read with their schemas (Protobuf).",
    beyond_kafka=True,
)


def run(parsed: Parsed) -> int:
    return console_consumer.run(parsed, formatter_class="ProtobufMessageFormatter")
