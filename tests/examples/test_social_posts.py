from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.streams import TopologyTestDriver

MINUTE = 60_000
NOON = 43_200_000


def react(driver: TopologyTestDriver, topic: str, post: str, times: int, at: int) -> None:
    for number in range(times):
        driver.pipe_input(topic, post, {"event": topic, "user": f"user-{number}"}, timestamp_ms=at)


def test_a_post_shows_its_counts_and_is_gone_when_it_is_deleted(driver: Callable[[str], TopologyTestDriver]) -> None:
    social = driver("social_posts")

    def post(event: str, at: int) -> None:
        social.pipe_input("posts", "anna", {"event": event, "post": "p1", "text": "hello"}, timestamp_ms=at)

    def read() -> dict[str, Any]:
        return dict(social.read_output("posts_with_counts"))

    post("created", NOON)
    assert read() == {"p1": {"user": "anna", "text": "hello", "likes": 0, "comments": 0}}
    react(social, "likes", "p1", 3, NOON + 1)
    react(social, "comments", "p1", 1, NOON + 2)
    react(social, "likes", "of nobody", 1, NOON + 3)
    assert read() == {"p1": {"user": "anna", "text": "hello", "likes": 3, "comments": 1}}
    social.restart()
    react(social, "likes", "p1", 1, NOON + 4)
    assert read()["p1"]["likes"] == 4
    assert social.store("posts").get("p1")["comments"] == 1
    post("deleted", NOON + 5)
    assert read() == {"p1": None}
    react(social, "likes", "p1", 1, NOON + 6)
    assert read() == {}


def test_the_ten_posts_with_most_reactions_of_an_hour_are_trending(driver: Callable[[str], TopologyTestDriver]) -> None:
    social = driver("social_posts")
    for number in range(12):
        react(social, "likes", f"p{number:02}", 12 - number, NOON)
    react(social, "comments", "p05", 20, NOON + 15 * MINUTE)
    found = dict(social.read_output("trending_posts"))
    order = ["p05", "p00", "p01", "p02", "p03", "p04", "p06", "p07", "p08", "p09"]
    assert [name for name, _ in found[NOON]] == order
    assert found[NOON][0] == ["p05", 27]
    assert found[NOON + 10 * MINUTE] == [["p05", 20]]  # the hour that began later has not seen the likes
    assert min(found) == NOON - 50 * MINUTE

    social.restart()
    react(social, "likes", "p11", 30, NOON + 20 * MINUTE)  # it had fallen out
    assert dict(social.read_output("trending_posts"))[NOON][0] == ["p11", 31]
