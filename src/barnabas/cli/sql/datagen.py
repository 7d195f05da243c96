"""Made-up records: the quickstarts that courses use, and records of any Avro schema with `arg.properties`."""

from __future__ import annotations

import json
import random
import re
import string
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from barnabas.cli.errors import UsageError
from barnabas.cli.sql.patterns import text_of
from barnabas.pipelines.sql.compute.dates import datetime_of, format_moment

Row = dict[str, Any]
COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*')


class Quickstart(NamedTuple):
    topic: str
    key: str
    value_format: str
    make: Callable[[random.Random, int, int], Row]


def pageviews(random_: random.Random, number: int, now_ms: int) -> Row:
    return {
        "viewtime": 1 + number * 10,
        "userid": f"User_{random_.randint(1, 9)}",
        "pageid": f"Page_{random_.randint(10, 99)}",
    }


def users(random_: random.Random, number: int, now_ms: int) -> Row:
    return {
        "registertime": random_.randint(1487715775521, 1519273364600),
        "userid": f"User_{random_.randint(1, 9)}",
        "regionid": f"Region_{random_.randint(1, 9)}",
        "gender": random_.choice(["MALE", "FEMALE", "OTHER"]),
    }


def orders(random_: random.Random, number: int, now_ms: int) -> Row:
    city = random_.randint(10, 99)
    return {
        "ordertime": random_.randint(1487715775521, 1519273364600),
        "orderid": number,
        "itemid": f"Item_{random_.randint(1, 999)}",
        "orderunits": random_.uniform(0.1, 10.0),
        "address": {"city": f"City_{city}", "state": f"State_{city}", "zipcode": random_.randint(10000, 99999)},
    }


def ratings(random_: random.Random, number: int, now_ms: int) -> Row:
    return {
        "rating_id": number + 1,
        "user_id": random_.randint(1, 20),
        "stars": random_.randint(1, 5),
        "route_id": random_.randint(1, 10_000),
        "rating_time": now_ms,
        "channel": random_.choice(["web", "iOS", "android", "iOS-test"]),
        "message": random_.choice(
            ["thank you for the most friendly, helpful experience", "meh", "worst. flight. ever."]
        ),
    }


def clickstream(random_: random.Random, number: int, now_ms: int) -> Row:
    return {
        "ip": ".".join(str(random_.randint(1, 254)) for _ in range(4)),
        "userid": random_.randint(1, 40),
        "remote_user": "-",
        "_time": now_ms,
        "request": random_.choice(["GET /index.html HTTP/1.1", "GET /site/login.html HTTP/1.1"]),
        "status": str(random_.choice([200, 302, 404, 406, 407])),
        "bytes": str(random_.randint(100, 16000)),
        "referrer": "-",
        "agent": "Mozilla/5.0",
    }


QUICKSTARTS = {
    "pageviews": Quickstart("pageviews", "viewtime", "DELIMITED", pageviews),
    "users": Quickstart("users", "userid", "JSON", users),
    "orders": Quickstart("orders_kafka_topic_json", "orderid", "JSON", orders),
    "ratings": Quickstart("ratings", "rating_id", "JSON", ratings),
    "clickstream": Quickstart("clickstream", "ip", "JSON", clickstream),
}


def schema_in(path: str) -> Row:
    """An Avro schema, in whose file comments (`//`) may be."""
    from barnabas.pipelines.sql.formats.inference import avro_kind

    try:
        schema = json.loads(COMMENT.sub(r"\1", Path(path).read_text()))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is no Avro schema: {error}") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise UsageError(f"{path} is no Avro schema of a record.")
    try:
        avro_kind(schema, {})
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is no Avro schema: {type(error).__name__} {error}") from None
    return schema


def schema_maker(schema: Row) -> Callable[[random.Random, int, int], Row]:
    """`arg.properties` of a field or a type say options, range, regex, length, odds or iteration; `format_as_time`
    takes the time of now."""

    def make(random_: random.Random, number: int, now_ms: int) -> Row:
        row: Row = Maker(random_, number, now_ms, {}).value_of(schema, {})
        return row

    return make


class Maker(NamedTuple):
    """Of the values of one record."""

    random: random.Random
    number: int
    now_ms: int
    named: dict[str, Any]  # types that others name

    def value_of(self, kind: Any, settings: Row) -> Any:
        if isinstance(kind, list):
            kinds = [one for one in kind if one != "null"] or ["null"]
            return self.value_of(self.random.choice(kinds), settings)
        if isinstance(kind, str) and kind in self.named:
            return self.value_of(self.named[kind], settings)
        given = kind if isinstance(kind, dict) else {"type": kind}
        if isinstance(given["type"], (dict, list)):
            return self.value_of(given["type"], given.get("arg.properties", settings))
        if "name" in given:
            self.named[given["name"]] = given
        settings = given.get("arg.properties", settings)
        if (form := given.get("format_as_time")) is not None:
            return self.now_ms if form == "unix_long" else format_moment(datetime_of(self.now_ms), form)
        if isinstance(settings.get("options"), list):
            return self.random.choice(settings["options"])
        return self.made(given, settings)

    def made(self, kind: Row, settings: Row) -> Any:
        name = kind["type"]
        if name == "record":
            return {one["name"]: self.value_of(*field_type(one)) for one in kind["fields"]}
        if name == "array":
            return [self.value_of(kind["items"], {}) for _ in range(self.length(settings, 0, 3))]
        if name == "map":
            return {f"key{at}": self.value_of(kind["values"], {}) for at in range(self.length(settings, 0, 3))}
        if name == "enum":
            return self.random.choice(kind["symbols"])
        if "iteration" in settings:
            return iterated(settings["iteration"], self.number)
        if "regex" in settings:
            return text_of(str(settings["regex"]), self.random)
        span = settings.get("range", {})
        low, high = span.get("min", 0), span.get("max", 1000)
        if name in ("int", "long"):
            return self.random.randrange(int(low), max(int(high), int(low) + 1))
        if name in ("float", "double"):
            return self.random.uniform(low, high)
        if name == "boolean":
            return self.random.random() < settings.get("odds", 0.5)
        letters = self.random.choices(string.ascii_lowercase, k=self.length(settings, 8, 8))
        return None if name == "null" else "".join(letters)

    def length(self, settings: Row, least: int, most: int) -> int:
        given = settings.get("length", {"min": least, "max": most + 1})
        if not isinstance(given, dict):
            return int(given)
        first = int(given.get("min", 0))
        return self.random.randrange(first, max(int(given.get("max", first + most)), first + 1))


def field_type(field: Row) -> tuple[Any, Row]:
    """The type of a field and what is said of it; `format_as_time` may stand at either."""
    kind = field["type"]
    if "format_as_time" in field:
        kind = {"type": kind, "format_as_time": field["format_as_time"]}
    return kind, field.get("arg.properties", {})


def iterated(settings: Row, number: int) -> Any:
    """Counts from `start`, and begins there again at `restart`, which is not reached."""
    start = settings.get("start", 0)
    restart, initial = settings.get("restart"), settings.get("initial", start)
    step = settings.get("step", 1 if restart is None or restart >= start else -1)
    if restart is None or restart == start:
        return initial + number * step
    return start + (initial - start + number * step) % (restart - start)


def generated(
    make: Callable[[random.Random, int, int], Row], seed: int | None, count: int | None
) -> Iterator[tuple[int, Row]]:
    random_ = random.Random(seed)
    number = 0
    while count is None or number < count:
        now_ms = int(time.time() * 1000)
        yield now_ms, make(random_, number, now_ms)
        number += 1
