"""`ksql-datagen quickstart=users format=json topic=users iterations=100`: made-up records into a topic."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.cli.errors import UsageError

if TYPE_CHECKING:
    from barnabas.pipelines.sql.formats.codecs import Codec

USAGE = """usage: ksql-datagen [help] [bootstrap-server=<host:port>] (quickstart=<name> | schema=<file.avsc>)
                    [topic=<topic>] [key=<field>] [format=<json|delimited|avro>] [key-format=<kafka|json>]
                    [iterations=<count>] [maxInterval=<ms>] [msgRate=<a second>] [seed=<number>]
                    [schemaRegistryUrl=<url>] [printRows=<true|false>]

quickstarts: {}"""
NAMES = {
    "bootstrap-server": "bootstrap-server",
    "bootstrap-servers": "bootstrap-server",
    "quickstart": "quickstart",
    "schema": "schema",
    "topic": "topic",
    "key": "key",
    "format": "format",
    "value-format": "format",
    "key-format": "key-format",
    "iterations": "iterations",
    "maxinterval": "maxInterval",
    "msgrate": "msgRate",
    "seed": "seed",
    "schemaregistryurl": "schemaRegistryUrl",
    "printrows": "printRows",
    "propertiesfile": "propertiesFile",
    "nthreads": "nThreads",
}


def main(arguments: list[str]) -> int:
    from barnabas.cli.sql.datagen import QUICKSTARTS

    if not arguments or arguments[0] in ("help", "--help", "-h"):
        print(USAGE.format(", ".join(QUICKSTARTS)))
        return 0 if arguments else 1
    return run(read(arguments))


def read(arguments: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in arguments:
        name, equals, value = one.partition("=")
        known = NAMES.get(name.lstrip("-").lower())
        if known is None or not equals:
            raise UsageError(
                f"{one} is no argument: name=value is expected, with one of {', '.join(sorted(set(NAMES.values())))}."
            )
        found[known] = value
    return found


def number(given: dict[str, str], name: str) -> int | None:
    if name not in given:
        return None
    try:
        return int(given[name])
    except ValueError:
        raise UsageError(f"{name}={given[name]} is no whole number.") from None


def run(given: dict[str, str]) -> int:
    from barnabas.cli.sql.datagen import QUICKSTARTS, generated, schema_in, schema_maker
    from barnabas.client.producer import Producer
    from barnabas.client.settings import ClientSettings, read_properties

    if ("quickstart" in given) == ("schema" in given):
        raise UsageError("quickstart= or schema= is needed, and not both.")
    schema = None
    if "quickstart" in given:
        quickstart = QUICKSTARTS.get(given["quickstart"].lower())
        if quickstart is None:
            raise UsageError(f"There is no quickstart {given['quickstart']}: {', '.join(QUICKSTARTS)}.")
        topic, key, name, make = quickstart
    else:
        schema = schema_in(given["schema"])
        topic, key, name, make = "", "", "JSON", schema_maker(schema)
    topic, key = given.get("topic", topic), given.get("key", key)
    if not topic or not key:
        raise UsageError("topic= and key= are needed with schema=.")
    properties = read_properties(given["propertiesFile"]) if "propertiesFile" in given else {}
    servers = given.get("bootstrap-server", "localhost:9092")
    settings = ClientSettings.from_properties(properties, bootstrap_servers=servers, client_id="ksql-datagen")
    rate, most_ms = number(given, "msgRate"), number(given, "maxInterval")
    codecs: list[Codec] = []
    with Producer(settings) as producer:
        for now_ms, row in generated(make, number(given, "seed"), number(given, "iterations")):
            if key not in row:
                raise UsageError(f"The records have no field {key}: {', '.join(row)}.")
            if not codecs:
                codecs = codecs_for(row, key, topic, given.get("format", name).upper(), given, schema)
            producer.send(
                topic, codecs[1].encode(list(row.values())), key=codecs[0].encode([row[key]]), timestamp=now_ms
            )
            if given.get("printRows", "true").lower() == "true":
                print(f"{row[key]} --> ({' | '.join(json.dumps(one) for one in row.values())}) ts:{now_ms}")
                sys.stdout.flush()
            wait(rate, most_ms)
        producer.flush(60)
    return 0


def wait(rate: int | None, most_ms: int | None, sleep: Callable[[float], Any] = time.sleep) -> None:
    import random

    if rate:
        sleep(1 / rate)
    elif most_ms:
        sleep(random.random() * most_ms / 1000)


def codecs_for(
    row: dict[str, Any], key: str, topic: str, name: str, given: dict[str, str], schema: dict[str, Any] | None = None
) -> list[Codec]:
    """Of the key and of the value; types are those of the schema, or of the first record."""
    from barnabas.pipelines.sql.errors import SqlError
    from barnabas.pipelines.sql.formats.codecs import check_format, codec_of
    from barnabas.pipelines.sql.formats.inference import avro_kind
    from barnabas.pipelines.sql.metastore import FormatInfo, SourceColumn

    kinds = {} if schema is None else dict(avro_kind(schema, {}).fields)
    columns = [
        SourceColumn(one, kinds[one] if one in kinds and not isinstance(value, str) else kind_of(value))
        for one, value in row.items()
    ]
    keys = [one for one in columns if one.name == key]
    settings = (("REGISTRY", given.get("schemaRegistryUrl", "http://localhost:8081")),)
    try:
        check_format(name, columns, "value")
        key_format = check_format(given.get("key-format", "KAFKA"), keys, "key")
        return [
            codec_of(FormatInfo(key_format), keys, key=True, topic=topic),
            codec_of(FormatInfo(name, settings), columns, key=False, topic=topic),
        ]
    except SqlError as error:
        raise UsageError(str(error)) from None


def kind_of(value: Any) -> Any:
    from barnabas.pipelines.sql import types

    if isinstance(value, bool):
        return types.BOOLEAN
    if isinstance(value, int):
        return types.BIGINT
    if isinstance(value, float):
        return types.DOUBLE
    if isinstance(value, dict):
        return types.struct(*((name, kind_of(one)) for name, one in value.items()))
    if isinstance(value, list):
        return types.array(kind_of(value[0]) if value else types.STRING)
    return types.STRING
