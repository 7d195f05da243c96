"""Made-up records: the quickstarts that courses use, and records of any Avro schema with `arg.properties`."""

from __future__ import annotations

import json
import random
import string
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from barnabas.cli.errors import UsageError

Row = dict[str, Any]


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


def schema_maker(path: str) -> Callable[[random.Random, int, int], Row]:
    """Records of an Avro schema; `arg.properties` of a field say options, range, regex or iteration."""
    try:
        schema = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is no Avro schema: {error}") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise UsageError(f"{path} is no Avro schema of a record.")

    def make(random_: random.Random, number: int, now_ms: int) -> Row:
        return {
            one["name"]: value_of(one["type"], random_, number, one.get("arg.properties", {}))
            for one in schema["fields"]
        }

    return make


def value_of(kind: Any, random_: random.Random, number: int, settings: Row) -> Any:
    if isinstance(kind, list):
        return value_of(random_.choice([one for one in kind if one != "null"] or ["null"]), random_, number, settings)
    if isinstance(kind, dict):
        settings = kind.get("arg.properties", settings)
        if kind["type"] == "record":
            return {
                one["name"]: value_of(one["type"], random_, number, one.get("arg.properties", {}))
                for one in kind["fields"]
            }
        if kind["type"] == "array":
            return [value_of(kind["items"], random_, number, {}) for _ in range(random_.randint(0, 3))]
        if kind["type"] == "map":
            return {f"key{at}": value_of(kind["values"], random_, number, {}) for at in range(random_.randint(0, 3))}
        if kind["type"] == "enum":
            return random_.choice(kind["symbols"])
        kind = kind["type"]
    if "options" in settings and isinstance(settings["options"], list):
        return random_.choice(settings["options"])
    if "iteration" in settings:
        step = settings["iteration"]
        return step.get("start", 0) + number * step.get("step", 1)
    if "regex" in settings:
        return of_pattern(str(settings["regex"]), random_)
    span = settings.get("range", {})
    low, high = span.get("min", 0), span.get("max", 1000)
    if kind in ("int", "long"):
        return random_.randrange(int(low), max(int(high), int(low) + 1))
    if kind in ("float", "double"):
        return random_.uniform(low, high)
    if kind == "boolean":
        return random_.random() < 0.5
    return None if kind == "null" else "".join(random_.choices(string.ascii_lowercase, k=8))


def of_pattern(pattern: str, random_: random.Random) -> str:
    """Text of a simple regular expression: letters, classes such as [1-9] or [a-z]{3}, and repetitions."""
    import re

    found = ""
    for group, literal, times in re.findall(r"(?:\[([^\]]+)\]|(\\?.))(?:\{(\d+)(?:,\d+)?\})?", pattern):
        letters = literal.lstrip("\\") if literal else expanded(group)
        found += "".join(random_.choice(letters) for _ in range(int(times or 1)))
    return found


def expanded(group: str) -> str:
    import re

    whole = re.sub(r"(.)-(.)", lambda one: "".join(map(chr, range(ord(one.group(1)), ord(one.group(2)) + 1))), group)
    return whole or "x"


def generated(
    make: Callable[[random.Random, int, int], Row], seed: int | None, count: int | None
) -> Iterator[tuple[int, Row]]:
    random_ = random.Random(seed)
    number = 0
    while count is None or number < count:
        now_ms = int(time.time() * 1000)
        yield now_ms, make(random_, number, now_ms)
        number += 1
