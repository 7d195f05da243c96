"""Orders as Java 17 and Kafka 4.3.1 gave them for the same names, put in one after the other."""

from __future__ import annotations

import pytest

from barnabas.core.groups.java_order import java_ordered, timeline_ordered


def numbers(names: list[str]) -> str:
    return " ".join(name.removeprefix("member-") for name in names)


@pytest.mark.parametrize(
    ("count", "timeline", "hashed"),
    [
        (2, "0 1", "1 0"),
        (3, "0 2 1", "1 2 0"),
        (7, "3 0 5 2 4 6 1", "1 2 0 5 6 3 4"),
        (
            20,
            "13 18 3 10 8 0 15 5 12 17 2 7 14 19 4 11 9 1 16 6",
            "19 18 17 16 5 15 6 14 3 13 4 12 9 11 10 7 8 1 2 0",
        ),
    ],
)
def test_names_come_in_the_order_of_kafkas_maps(count: int, timeline: str, hashed: str) -> None:
    names = [f"member-{number}" for number in range(count)]
    assert numbers(timeline_ordered(names)) == timeline
    assert numbers(java_ordered(names)) == hashed


def test_names_of_one_bucket_come_in_reverse_in_a_timeline() -> None:
    assert timeline_ordered(["AaAa", "BBBB", "AaBB"]) == ["AaBB", "BBBB", "AaAa"]
