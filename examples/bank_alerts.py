"""A bank warns its customers of large transactions; each customer says what large is.

    bank_transactions  user -> {"id": "t1", "amount": 1200}, as change data capture gives them out of the database
    user_thresholds    user -> {"event": "threshold_enabled", "amount": 1000} or {"event": "threshold_disabled"}
    user_alerts        user -> {"id": "t1", "amount": 1200, "threshold": 1000}

A threshold holds for what comes behind it: who sets one gets no alerts for transactions of the past. That is what the
join of a stream with a table means, and the times of records decide, not how fast they came here.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from topics import FOR_EVER, Topic, create_topics, kept

import barnabas.spark
from barnabas.streams import JSON, Topology, col

# Transactions and thresholds of a user must be in partitions of the same number: same key, same count. Two partitions
# for each of three brokers are a beginning that can be read in parallel.
TOPICS = [
    # The database keeps the transactions themselves.
    Topic("bank_transactions", partitions=6, configs=kept(timedelta(days=7))),
    # Events ("anna set 1000 at noon"), not states ("anna: 1000"): history is worth keeping, and all of it is needed to
    # know what holds. Compaction would leave the last event of each user only.
    Topic("user_thresholds", partitions=6, configs=FOR_EVER),
    Topic("user_alerts", partitions=6, configs=kept(timedelta(days=1))),  # nobody wants an alert of last week
]


def threshold(event: dict[str, Any]) -> float | None:
    """The state after an event. None is a tombstone: the user has no threshold any more."""
    amount: float | None = event["amount"] if event["event"] == "threshold_enabled" else None
    return amount


def build() -> Topology:
    topology = Topology("bank-alerts", processing_guarantee="exactly_once_v2")
    thresholds = topology.stream("user_thresholds").map_values(threshold).to_table(store="thresholds")
    checked = topology.stream("bank_transactions").join(
        thresholds, lambda transaction, limit: {**transaction, "threshold": limit}
    )
    checked.filter(col("value.amount") > col("value.threshold")).to("user_alerts", value=JSON)
    return topology


if __name__ == "__main__":
    create_topics(TOPICS)
    build().start(barnabas.spark.session("bank-alerts")).await_termination()
