"""The snippets of docs/streams.md, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from barnabas.streams import Topology, TopologyTestDriver

PAGE = (Path(__file__).parents[4] / "docs" / "streams.md").read_text()
SNIPPETS = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)


def ran(beginning: str, **given: Any) -> dict[str, Any]:
    """What the snippet has defined, without what needs Spark."""
    (snippet,) = [one for one in SNIPPETS if beginning in one]
    code = snippet.partition("run = topology.start(")[0].replace("import barnabas.spark\n", "")
    exec(compile(code, "docs/streams.md", "exec"), given)
    return given


def test_words_are_counted_and_the_test_of_it_holds() -> None:
    topology = ran('Topology("word-count"')["topology"]
    ran("with TopologyTestDriver", topology=topology)
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("lines", "a", "Hello hello you")
        assert dict(driver.read_output("counts")) == {"hello": 2, "you": 1}


def test_who_is_silent_raises_an_alarm() -> None:
    with TopologyTestDriver(ran("class Silence")["topology"]) as driver:
        for key, time in (("a", 0), ("b", 1_000), ("b", 90_000)):
            driver.pipe_input("heartbeats", key, 1, timestamp_ms=time)
        assert driver.read_timed_output("alarms") == [("a", "silent", 90_000)]


def test_context_and_times_in_records_are_taken() -> None:
    topology = Topology()
    stream = ran("timestamp=lambda", topology=topology)["orders"]
    ran("import with_context", stream=stream)
    stream.to("out")
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("orders", "a", {"at_ms": 7})
        assert [time for *_, time in driver.read_timed_output("out")] == [7]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_all_of_them_compile(snippet: str) -> None:
    compile(snippet, "docs/streams.md", "exec")
