"""Kafka's own tools on Apache Kafka printed `golden/*.txt`; ours print the same.

By default all of them run with our tools on our node, and a part the two other ways: our tools on Apache Kafka, and
Kafka's tools on our node. BARNABAS_GOLDEN=all runs everything everywhere (`make golden`), BARNABAS_GOLDEN=write makes
the transcripts anew.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from difflib import ndiff
from pathlib import Path

import pytest

from tests.support import reference

from .clusters import cluster, names_of, our_tool
from .many_tools import ManyTools
from .transcripts import Output, Runner, Step, perform, read, write

GOLDEN = Path(__file__).parent / "golden"
MODE = os.environ.get("BARNABAS_GOLDEN", "")
LIMIT_S = 10.0
# Those that run all three ways every time.
REPRESENTATIVE = {"topics", "configs"}
STORIES = sorted(path.stem for path in GOLDEN.glob("*.txt"))


def ways() -> list[tuple[str, str, str]]:
    if MODE == "write":
        return [(story, "Kafka's tools", "Apache Kafka") for story in STORIES]
    everywhere = STORIES if MODE == "all" else [story for story in STORIES if story in REPRESENTATIVE]
    return [
        *((story, "our tools", "our node") for story in STORIES),
        *((story, "our tools", "Apache Kafka") for story in everywhere),
        *((story, "Kafka's tools", "our node") for story in everywhere),
    ]


@pytest.fixture(scope="module")
def kafkas_tools() -> Iterator[ManyTools]:
    tools = ManyTools()
    yield tools
    tools.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("story", "tools", "where"), ways())
def test_a_transcript_prints_what_kafkas_tool_printed(
    story: str, tools: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kafkas_tools: ManyTools
) -> None:
    if (where != "our node" or tools != "our tools") and (reason := reference.available()):
        pytest.skip(f"the reference is not available: {reason}")
    monkeypatch.chdir(tmp_path)
    parts = read(GOLDEN / f"{story}.txt")
    if _forbids(parts, tools, where):
        pytest.skip("told in the transcript")
    found: list[str] = []
    with cluster(where, _properties(parts)) as running:
        names = names_of(running, tmp_path)
        for step in (part for part in parts if isinstance(part, Step)):
            ours = tools == "our tools" or step.has("ours only")
            if MODE != "write" and ((ours and tools != "our tools") or step.has(f"skipped on {where}")):
                continue
            run: Runner = _ours(running.bootstrap_servers) if ours else kafkas_tools.run
            if MODE == "write":
                step.expected = _settled(step, tmp_path, run, names)
            else:
                found += _differences(step, tmp_path, run, names)
    assert not found, "\n".join(found)
    if MODE == "write":
        write(GOLDEN / f"{story}.txt", parts)


def _forbids(parts: list[str | Step], tools: str, where: str) -> bool:
    """A transcript may say `@ not with Kafka's tools` or `@ not on Apache Kafka` in its prose."""
    said = {part[2:] for part in parts if isinstance(part, str) and part.startswith("@ not ")}
    return MODE != "write" and bool(said & {f"not with {tools}", f"not on {where}"})


def _properties(parts: list[str | Step]) -> dict[str, str]:
    """Of the cluster: `@ with KEY=VALUE` in the prose."""
    said = [part[7:].partition("=") for part in parts if isinstance(part, str) and part.startswith("@ with ")]
    return {key: value for key, _, value in said}


def _ours(bootstrap: str) -> Runner:
    return lambda script, arguments, stdin: our_tool(script, arguments, stdin, bootstrap)


def _differences(step: Step, directory: Path, run: Runner, names: dict[str, str]) -> list[str]:
    wanted = step.seen(step.expected)
    limit = time.monotonic() + LIMIT_S
    while True:
        printed = step.seen(perform(step, directory, run, names))
        if printed == wanted or not step.has("until") or time.monotonic() > limit:
            break
        time.sleep(0.05)
    if printed == wanted:
        return []
    return [f"$ {step.command}", *ndiff(wanted.lines(), printed.lines()), ""]


def _settled(step: Step, directory: Path, run: Runner, names: dict[str, str]) -> Output:
    """Of a step that needs a moment: what it printed last once it has printed the same twice."""
    printed = perform(step, directory, run, names)
    while step.has("until"):
        time.sleep(1)
        before, printed = printed, perform(step, directory, run, names)
        if before == printed:
            break
    return printed
