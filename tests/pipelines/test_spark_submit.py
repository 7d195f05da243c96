"""An example started with PySpark's own `spark-submit`, by the words of docs/examples.md."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from barnabas.pipelines.spark.startup.java import JavaMissing, find_java
from barnabas.testing import Node

ROOT = Path(__file__).parents[2]
SUBMIT = Path(sys.executable).with_name("spark-submit")
WAIT_S = 240.0
pytestmark = pytest.mark.timeout(400)


def command_of_the_documents() -> list[str]:
    (line,) = re.findall(
        r"^BARNABAS_BOOTSTRAP_SERVERS=\S+ (spark-submit .*)$", text_of("docs/examples.md"), re.MULTILINE
    )
    return shlex.split(line)


def text_of(name: str) -> str:
    return (ROOT / name).read_text()


def test_word_count_runs_by_spark_submit_as_the_documents_say(tmp_path: Path, make_stage: Any) -> None:
    try:
        find_java()
    except JavaMissing as missing:
        pytest.skip(str(missing))
    if not SUBMIT.exists():
        pytest.skip("there is no spark-submit beside this Python")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = os.environ | {
        "PATH": f"{SUBMIT.parent}{os.pathsep}{os.environ['PATH']}",
        "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # a short run: the full compiler never pays
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "BARNABAS_SPARK_FORKS"):
        environment.pop(name, None)
    with Node({"auto.create.topics.enable": "false"}) as node, make_stage(node.bootstrap_servers) as stage:
        stage.write(stage.topic(3, "streams-plaintext-input"), ["all streams lead to kafka", "hello kafka streams"])
        results = stage.topic(3, "streams-wordcount-output", cleanup_policy="compact")
        environment["BARNABAS_BOOTSTRAP_SERVERS"] = node.bootstrap_servers
        with (tmp_path / "said").open("wb") as said:
            run = subprocess.Popen(command_of_the_documents(), stdout=said, stderr=said, env=environment, cwd=tmp_path)
        try:
            limit, found = time.monotonic() + WAIT_S, {}
            while found != {"all": 1, "streams": 2, "lead": 1, "to": 1, "kafka": 2, "hello": 1}:
                told = (tmp_path / "said").read_text(errors="replace")[-4000:]
                assert run.poll() is None, f"it ended by itself:\n{told}"
                assert time.monotonic() < limit, f"its results are {found}:\n{told}"
                time.sleep(0.2)
                pairs = [pair for one in range(3) for pair in stage.read_committed(results, one)]
                found = {word: int.from_bytes(count.encode(), "big") for word, count in pairs}
            run.send_signal(signal.SIGTERM)
            run.wait(60)
        finally:
            run.kill()
            run.wait()
    assert (tmp_path / "checkpoints" / "word-count" / "barnabas" / "topology.json").exists()
