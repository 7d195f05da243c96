"""What docs/examples.md tells readers to write, through the topologies, gives what it says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.streams import TopologyTestDriver

PAGE = (Path(__file__).parents[2] / "docs" / "examples.md").read_text()
GIVES: dict[str, dict[str, Any]] = {
    "word_count": {"streams-wordcount-output": {"all": 1, "streams": 2, "lead": 1, "to": 1, "kafka": 2, "hello": 1}},
    "bank_alerts": {"user_alerts": {"anna": {"id": "t2", "amount": 1200, "threshold": 1000}}},
    "social_posts": {"posts_with_counts": {"p1": {"user": "anna", "text": "hello", "likes": 1, "comments": 1}}},
    "taxi_surge": {"surge_pricing": {"947/170": {"users": 1, "taxis": 1, "surge": 1.0}}},
    "resume_positions": {"resume_positions": {"anna": None}},
}


@pytest.mark.parametrize("name", GIVES)
def test_the_commands_of_the_page_give_what_it_says(name: str, driver: Callable[[str], TopologyTestDriver]) -> None:
    (section,) = [one for one in PAGE.split("\n## ") if f"/{name}.py)" in one]
    given = re.findall(r"""^echo (["'])(.*?)\1 \| barnabas produce (.*)$""", section, re.M)
    assert given
    run = driver(name)
    for at, (_, line, words) in enumerate(given):
        *options, topic = words.split()
        key, _, value = line.partition("|") if "-K" in options else ("", "", line)
        tombstone = not value and "-Z" in options
        run.pipe_bytes(
            topic,
            key.encode() or None,
            None if tombstone else value.encode(),
            timestamp_ms=at,
        )
    for topic, rows in GIVES[name].items():
        assert dict(run.read_output(topic)) == rows
        assert re.search(rf"(consume|--topic) .*{topic}", section)


def test_every_example_has_its_paragraph() -> None:
    files = {one.name for one in (Path(__file__).parents[2] / "examples").glob("*.py")}
    told = set(re.findall(r"\(\.\./examples/(\w+\.py)\)", PAGE))
    assert told <= files
    assert files - told == {
        "topics.py",
        "demo.py",
        "plant.py",
        "plant_picture.py",
        "plant_results.py",
        "plant_screen.py",
    }
