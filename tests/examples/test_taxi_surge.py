from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.streams import TopologyTestDriver

ZURICH = {"latitude": 47.37, "longitude": 8.54}
BASEL = {"latitude": 47.55, "longitude": 7.59}


def test_the_price_rises_with_users_and_falls_with_free_taxis(driver: Callable[[str], TopologyTestDriver]) -> None:
    city = driver("taxi_surge")
    at = iter(range(1000))

    def user(name: str, where: dict[str, Any] | None) -> None:
        city.pipe_input("user_position", name, where, timestamp_ms=next(at))

    def taxi(name: str, where: dict[str, Any] | None, *, free: bool = True) -> None:
        city.pipe_input("taxi_position", name, where and {**where, "free": free}, timestamp_ms=next(at))

    def prices() -> dict[str, Any]:
        return {region: tuple(value.values()) for region, value in city.read_output("surge_pricing")}

    zurich, basel = "947/170", "951/151"
    taxi("t1", ZURICH)
    user("anna", ZURICH)
    assert prices() == {zurich: (1, 1, 1.0)}
    for number in range(4):
        user(f"user-{number}", ZURICH)
    taxi("t2", ZURICH)
    assert prices() == {zurich: (5, 2, 2.5)}

    city.restart()
    user("anna", BASEL)  # she is no longer in Zurich, and there is no taxi where she is
    assert prices() == {zurich: (4, 2, 2.0), basel: (1, 0, 1.0)}
    taxi("t2", ZURICH, free=False)
    assert prices() == {zurich: (4, 1, 3.0)}
    taxi("t1", None)
    user("user-0", None)
    assert prices() == {zurich: (3, 0, 3.0)}
    assert city.store("prices").get(basel) == {"users": 1, "taxis": 0, "surge": 1.0}


def test_the_surge_has_bounds(example: Callable[[str], Any]) -> None:
    price = example("taxi_surge").price
    assert price(0, None)["surge"] == 1.0
    assert price(7, 3)["surge"] == pytest.approx(2.3)
    assert price(500, 1)["surge"] == 3.0
