"""`kafka-json-schema-console-consumer`: the records of topics as JSON, read with their schemas (JSON Schema)."""

from __future__ import annotations

from dataclasses import replace

from barnabas.cli.options import Parsed
from barnabas.cli.tools import console_consumer

PARSER = replace(
    console_consumer.PARSER,
    name="json-schema-console-consumer",
    summary="Prints the records of topics as JSON, read with their schemas (JSON Schema).",
    beyond_kafka=True,
)


def run(parsed: Parsed) -> int:
    return console_consumer.run(parsed, formatter_class="JsonSchemaMessageFormatter")
