"""The pipelines in the README run as they stand there: saved under their names, and started as it says.

`spark-submit` takes longer: an example runs by it in test_spark_submit.py.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from barnabas.pipelines.spark.startup.java import JavaMissing, find_java
from barnabas.testing import Node

README = Path(__file__).parents[2] / "README.md"
BIN = Path(sys.executable).parent
WAIT_S = 240.0
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    try:
        find_java()
    except JavaMissing as missing:
        pytest.skip(str(missing))
    with Node() as running:
        yield running


def saved(name: str, directory: Path, node: Node, without: str = "") -> str:
    """The snippet whose first line names the file, with the brokers of the test."""
    (code,) = re.findall(rf"^```python\n(# {name}\n.*?)^```", README.read_text(), re.M | re.S)
    assert without in code
    (directory / name).write_text(code.replace("localhost:9092", node.bootstrap_servers).replace(without, ""))
    return name


def environment(node: Node, *, activated: bool) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYSPARK_")}
    paths = [path for path in kept["PATH"].split(os.pathsep) if Path(path) != BIN]
    return kept | {"PATH": os.pathsep.join([str(BIN), *paths] if activated else paths)}


@pytest.mark.parametrize(
    ("words", "activated"),
    [
        ((str(BIN / "python"),), False),
        (("barnabas", "pipeline", "--state-dir", "state", "run"), True),
    ],
    ids=["python", "pipeline run"],
)
def test_the_greetings_are_copied(
    node: Node, make_stage: Any, tmp_path: Path, words: tuple[str, ...], activated: bool
) -> None:
    node.reset()
    name = saved("copy_greetings.py", tmp_path, node)
    with make_stage(node.bootstrap_servers) as stage:
        stage.write(stage.topic(name="greetings"), ["hello", "good morning"], keys=["en", "en"])
        stage.topic(name="copies")
        ran = subprocess.run(
            [*words, name],
            cwd=tmp_path,
            env=environment(node, activated=activated),
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert stage.read_committed("copies") == [("en", "hello"), ("en", "good morning")]


def test_words_are_counted_until_ctrl_c_which_prints_one_traceback(node: Node, make_stage: Any, tmp_path: Path) -> None:
    node.reset()
    name = saved("word_count.py", tmp_path, node)
    with make_stage(node.bootstrap_servers) as stage, (tmp_path / "said").open("wb") as said:
        stage.write(stage.topic(name="lines"), ["Hello hello", "good morning"])
        stage.topic(name="counts")
        run = subprocess.Popen(
            [sys.executable, name], cwd=tmp_path, env=environment(node, activated=False), stdout=said, stderr=said
        )
        try:
            limit = time.monotonic() + WAIT_S
            while len(stage.read_committed("counts")) < 3:
                assert run.poll() is None, (tmp_path / "said").read_text()
                assert time.monotonic() < limit, (tmp_path / "said").read_text()
                time.sleep(0.1)
            counts = {word: int.from_bytes(count.encode(), "big") for word, count in stage.read_committed("counts")}
            assert counts == {"hello": 2, "good": 1, "morning": 1}
            run.send_signal(signal.SIGINT)
            assert run.wait(WAIT_S) == -signal.SIGINT
        finally:
            run.kill()
            run.wait()
    told = (tmp_path / "said").read_text()
    assert told.count("Traceback") == told.splitlines().count("KeyboardInterrupt") == 1, told


def test_a_program_that_ends_while_its_query_runs_is_told_what_to_add(
    node: Node, make_stage: Any, tmp_path: Path
) -> None:
    node.reset()
    name = saved("word_count.py", tmp_path, node, without="run.await_termination()\n")
    with make_stage(node.bootstrap_servers) as stage:
        stage.topic(name="lines")
        stage.topic(name="counts")
        ran = subprocess.run(
            [sys.executable, name],
            cwd=tmp_path,
            env=environment(node, activated=False),
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    assert (
        "word-count still runs where the program ends, and is stopped. To wait: run.await_termination()" in ran.stderr
    )
    assert not re.search(r"Traceback|^\tat ", ran.stderr, re.M), ran.stderr
