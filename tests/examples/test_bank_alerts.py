from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.streams import TopologyTestDriver


def alerts(bank: TopologyTestDriver) -> list[tuple[str, str]]:
    return [(user, alert["id"]) for user, alert in bank.read_output("user_alerts")]


def test_only_transactions_behind_a_threshold_alert(driver: Callable[[str], TopologyTestDriver]) -> None:
    bank = driver("bank_alerts")

    def pay(user: str, number: str, amount: float, at: int) -> None:
        bank.pipe_input("bank_transactions", user, {"id": number, "amount": amount}, timestamp_ms=at)

    def set_threshold(user: str, at: int, **event: Any) -> None:
        bank.pipe_input("user_thresholds", user, event, timestamp_ms=at)

    pay("anna", "past", 5000, at=10)
    set_threshold("anna", 20, event="threshold_enabled", amount=1000)
    pay("anna", "small", 1000, at=30)
    pay("anna", "large", 1000.01, at=40)
    pay("bert", "of nobody who asked", 99999, at=50)
    assert bank.read_output("user_alerts") == [("anna", {"id": "large", "amount": 1000.01, "threshold": 1000})]

    bank.restart()
    set_threshold("anna", 60, event="threshold_enabled", amount=50)
    pay("anna", "before the new one", 70, at=55)  # arrives behind it, and yet is before it
    pay("anna", "after", 70, at=65)
    assert alerts(bank) == [("anna", "after")]
    assert bank.store("thresholds").get("anna") == 50

    set_threshold("anna", 70, event="threshold_disabled")
    pay("anna", "unwatched", 70000, at=75)
    assert alerts(bank) == []
    assert bank.store("thresholds").get("anna") is None


def test_the_thresholds_of_users_lie_where_their_transactions_do(example: Callable[[str], Any]) -> None:
    topics = {topic.name: topic for topic in example("bank_alerts").TOPICS}
    assert topics["bank_transactions"].partitions == topics["user_thresholds"].partitions
    assert topics["user_thresholds"].configs == {"retention.ms": "-1"}
