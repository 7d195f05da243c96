"""Surge pricing: a ride costs more where many people look for one and few taxis are free.

    user_position  user -> {"latitude": 47.3, "longitude": 8.5}, and a tombstone when the app is closed
    taxi_position  taxi -> {"latitude": 47.3, "longitude": 8.5, "free": true}, and a tombstone at the end of the shift
    surge_pricing  region -> {"users": 12, "taxis": 4, "surge": 3.0}

Positions are tables here: of a user only the last position counts. Who moves to another region is taken away from the
count of the one and added to that of the other. Weather or events would be more tables to join.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from topics import COMPACTED, Topic, create_topics, kept

import barnabas.spark
from barnabas.streams import JSON, STRING, Topology, col

TOPICS = [
    # Thousands of phones write all the time, hence many partitions, by who moves: positions of one stay in order. An
    # hour later they are worth nothing; what the fare needs is in the analytics store by then.
    Topic("user_position", partitions=32, configs=kept(timedelta(hours=1))),
    Topic("taxi_position", partitions=32, configs=kept(timedelta(hours=1))),
    Topic("surge_pricing", partitions=32, configs=COMPACTED),  # the price of a region is the last one
]
REGIONS_PER_DEGREE = 20  # squares of about five kilometres
LOWEST, HIGHEST = 1.0, 3.0


def region(_: str, position: dict[str, Any]) -> str:
    row, column = (math.floor(position[name] * REGIONS_PER_DEGREE) for name in ("latitude", "longitude"))
    return f"{row}/{column}"


def price(users: int, taxis: int | None) -> dict[str, Any]:
    free = taxis or 0
    surge = min(max(users / max(free, 1), LOWEST), HIGHEST)
    return {"users": users, "taxis": free, "surge": round(surge, 1)}


def build() -> Topology:
    topology = Topology("taxi-surge", processing_guarantee="exactly_once_v2")
    users = topology.table("user_position").group_by(region, key=STRING).count()
    free = topology.table("taxi_position").filter(col("value.free"))
    taxis = free.group_by(region, key=STRING).count()
    prices = users.left_join(taxis, price, store="prices")
    prices.to("surge_pricing", value=JSON)
    return topology


if __name__ == "__main__":
    create_topics(TOPICS)
    build().start(barnabas.spark.session("taxi-surge")).await_termination()
