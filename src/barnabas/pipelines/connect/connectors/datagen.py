"""Made-up records of the quickstarts' shapes, and of the Twitter connector's; the same number gives the same record."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.pipelines.connect.config import Definition, Setting, at_least, one_of
from barnabas.pipelines.connect.connector import SourceConnector, offset_key
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.data.schema import (
    FLOAT64,
    INT32,
    INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
    Struct,
    struct,
)

BATCH = 1_000
T0 = 1_487_000_000_000
REGIONS = [f"Region_{number}" for number in range(1, 10)]
SHAPES: dict[str, tuple[str, Schema]] = {
    "users": ("userid", struct([("registertime", INT64), ("userid", STRING), ("regionid", STRING), ("gender", STRING)],
                               name="ksql.users")),
    "pageviews": ("userid", struct([("viewtime", INT64), ("userid", STRING), ("pageid", STRING)],
                                   name="ksql.pageviews")),
    "orders": ("orderid", struct([("ordertime", INT64), ("orderid", INT32), ("itemid", STRING),
                                  ("orderunits", FLOAT64)], name="ksql.orders")),
    "ratings": ("rating_id", struct([("rating_id", INT64), ("user_id", INT32), ("stars", INT32), ("route_id", INT32),
                                     ("rating_time", INT64), ("channel", STRING), ("message", STRING)],
                                    name="ksql.ratings")),
    "stock_trades": ("symbol", struct([("side", STRING), ("quantity", INT32), ("symbol", STRING), ("price", INT32),
                                       ("account", STRING), ("userid", STRING)], name="ksql.StockTrade")),
    "twitter": ("Id", struct([("CreatedAt", INT64), ("Id", INT64), ("Text", STRING), ("Source", STRING),
                              ("UserMentionEntities", OPTIONAL_STRING), ("MediaEntities", OPTIONAL_STRING),
                              ("SymbolEntities", OPTIONAL_STRING), ("URLEntities", OPTIONAL_STRING)],
                             name="com.github.jcustenborder.kafka.connect.twitter.Status")),
}  # fmt: skip


class Datagen(SourceConnector):
    doc = "Records made up, as the quickstarts have them."
    definition = Definition(
        [
            Setting("kafka.topic", "STRING", "", doc="The topic to write to."),
            Setting("topic", "STRING", "", doc="The same."),
            Setting("quickstart", "STRING", "users", doc="The shape of the records.",
                    check=one_of(*SHAPES, ignore_case=True)),
            Setting("max.interval", "LONG", 500, doc="Longest time between two records, in milliseconds.",
                    check=at_least(0)),
            Setting("iterations", "LONG", -1, doc="How many records; -1 for no end."),
        ]
    )  # fmt: skip

    def configure(self) -> None:
        self._partition = {"task.id": self.task}
        self._shape = self.values["quickstart"].lower()
        self._topic = self.values["kafka.topic"] or self.values["topic"] or self._shape

    def has_news(self, offsets: Mapping[str, dict[str, Any]]) -> bool:
        done = offsets.get(offset_key(self._partition), {}).get("task.generation", 0)
        return not 0 <= self.values["iterations"] <= done

    @property
    def pause_ms(self) -> int:
        return int(self.values["max.interval"])

    def poll(self) -> Sequence[Record]:
        at = (self.offset(self._partition) or {}).get("task.generation", 0)
        left = self.values["iterations"] - at if self.values["iterations"] >= 0 else BATCH
        count = min(left, BATCH if not self.values["max.interval"] else 1)
        if count <= 0 or (self.values["max.interval"] and getattr(self, "_polled", False)):
            return []
        self._polled = True
        records = [self._record(number) for number in range(at, at + count)]
        self.offsets[offset_key(self._partition)] = {"task.generation": at + count}
        return records

    def _record(self, number: int) -> Record:
        key, schema = SHAPES[self._shape]
        value = Struct(schema, made(self._shape, number, random.Random(number)))
        field = schema.by_name[key]
        offset = {"task.generation": number + 1}
        return Record(self._topic, value, schema, value.get(key), field.schema, timestamp=int(time.time() * 1000),
                      source_partition=self._partition, source_offset=offset)  # fmt: skip


def made(shape: str, number: int, chance: random.Random) -> dict[str, Any]:
    user = f"User_{chance.randint(1, 9)}"
    if shape == "users":
        gender = chance.choice(["MALE", "FEMALE", "OTHER"])
        return {"registertime": T0 + chance.randrange(10**10), "userid": user, "regionid": chance.choice(REGIONS),
                "gender": gender}  # fmt: skip
    if shape == "pageviews":
        return {"viewtime": number * 10 + 1, "userid": user, "pageid": f"Page_{chance.randint(10, 99)}"}
    if shape == "orders":
        return {"ordertime": T0 + chance.randrange(10**10), "orderid": number,
                "itemid": f"Item_{chance.randint(1, 999)}", "orderunits": chance.uniform(0.1, 10)}  # fmt: skip
    if shape == "ratings":
        return {"rating_id": number + 1, "user_id": chance.randint(1, 19), "stars": chance.randint(1, 5),
                "route_id": chance.randint(1, 9999), "rating_time": number * 10 + 1,
                "channel": chance.choice(["web", "ios", "android", "iOS-test"]),
                "message": chance.choice(["why is it so difficult to keep the bathrooms clean ?", "Surprisingly good",
                                          "is this as good as it gets? really ?"])}  # fmt: skip
    if shape == "stock_trades":
        return {"side": chance.choice(["BUY", "SELL"]), "quantity": chance.randint(1, 5000),
                "symbol": chance.choice(["ZBZX", "ZJZZT", "ZTEST", "ZVV", "ZVZZT", "ZWZZT", "ZXZZT"]),
                "price": chance.randint(5, 1000), "account": chance.choice(["ABC123", "LMN456", "XYZ789"]),
                "userid": user}  # fmt: skip
    name = chance.choice(["kafka", "spark", "barnabas"])
    mention = json.dumps([{"Name": name, "Id": chance.randrange(10**6), "Text": name, "ScreenName": name}])
    return {"CreatedAt": T0 + number * 1000, "Id": 10**12 + number, "Text": f"learning about #{name} today",
            "Source": "datagen", "UserMentionEntities": mention, "MediaEntities": "[]", "SymbolEntities": "[]",
            "URLEntities": "[]"}  # fmt: skip
