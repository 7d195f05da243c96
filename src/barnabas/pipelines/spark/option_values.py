"""How the texts of options become values, and the sentence a user gets when they do not."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from barnabas.client.metadata import TopicPartition

LATEST = -1
EARLIEST = -2

SERVERS = "BARNABAS_BOOTSTRAP_SERVERS"  # where the brokers are if no option says it

_DURATION = re.compile(r"(\d+)\s*([a-z]*)")
_UNITS_MS = {
    "": 1,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


class OptionError(ValueError):
    """A wrong option; the text is one sentence that names it."""


def check_names(given: Iterable[str], known: Iterable[str]) -> None:
    """Options that nobody knows are ignored, as Spark does everywhere, unless one was mistyped."""
    by_name = {name.lower(): name for name in known}
    for name in given:
        if name.lower() in by_name:
            continue
        if near := get_close_matches(name.lower(), by_name, n=1, cutoff=0.85):
            raise OptionError(f"there is no option {name}: is {by_name[near[0]]} meant?")


def boolean(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name.lower())
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise OptionError(f"{name} is true or false, not '{text}'")
    return text.strip().lower() == "true"


def whole_number(options: Mapping[str, str], name: str, *, minimum: int = 1) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        value = int(text.strip())
    except ValueError:
        raise OptionError(f"{name} is a whole number, not '{text}'") from None
    if value < minimum:
        raise OptionError(f"{name} is at least {minimum}, not {value}")
    return value


def duration_ms(options: Mapping[str, str], name: str, default: str) -> int:
    """Spark's spelling of times: 100ms, 30s, 15m, 2h, 1d; a bare number is milliseconds."""
    text = options.get(name.lower(), default).strip().lower()
    match = _DURATION.fullmatch(text)
    if match is None or match[2] not in _UNITS_MS:
        raise OptionError(f"{name} is a time such as 500ms, 30s or 15m, not '{text}'")
    return int(match[1]) * _UNITS_MS[match[2]]


def partition_numbers(name: str, text: str) -> dict[TopicPartition, int]:
    """{"topicA":{"0":23,"1":-1}}: offsets or timestamps by topic and partition."""
    example = f'{name} is JSON such as {{"topicA":{{"0":23,"1":-1}}}}, not {text}'
    found: dict[TopicPartition, int] = {}
    for topic, numbers in json_object(text, example).items():
        if not isinstance(numbers, dict) or not all(key.isdigit() for key in numbers):
            raise OptionError(example)
        if not all(type(number) is int for number in numbers.values()):
            raise OptionError(example)
        found |= {(topic, int(partition)): number for partition, number in numbers.items()}
    if not found:
        raise OptionError(example)
    return found


def partition_lists(name: str, text: str) -> frozenset[TopicPartition]:
    """{"topicA":[0,1]}: partitions by topic."""
    example = f'{name} is JSON such as {{"topicA":[0,1],"topicB":[2,4]}}, not {text}'
    found: set[TopicPartition] = set()
    for topic, partitions in json_object(text, example).items():
        if not isinstance(partitions, list) or not all(type(number) is int and number >= 0 for number in partitions):
            raise OptionError(example)
        found |= {(topic, number) for number in partitions}
    if not found:
        raise OptionError(example)
    return frozenset(found)


def json_object(text: str, example: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        raise OptionError(example) from None
    if not isinstance(value, dict):
        raise OptionError(example)
    return value


def kafka_properties(options: Mapping[str, str], refused: Mapping[str, str]) -> dict[str, str]:
    """The `kafka.` options without their prefix; `refused` says of a property why it makes no sense here."""
    properties = {name[6:].lower(): value for name, value in options.items() if name.lower().startswith("kafka.")}
    for name, why in refused.items():
        if name in properties:
            raise OptionError(f"kafka.{name} is not an option here: {why}")
    if not properties.get("bootstrap.servers", "").strip():
        properties["bootstrap.servers"] = os.environ.get(SERVERS, "").strip()
        if not properties["bootstrap.servers"]:
            raise OptionError(
                f"kafka.bootstrap.servers is missing: name the brokers as host:port,host:port, here or in {SERVERS}"
            )
    return properties
