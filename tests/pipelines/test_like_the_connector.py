"""The same questions to our source and to Spark's JVM Kafka connector: schema, rows, tasks, batches and offsets JSON.

Its answers are kept in golden/jvm_connector.json. With BARNABAS_JVM_CONNECTOR=1 they are asked for again, of pyspark
4.2 in ~/.cache/barnabas/spark-4.2 with the connector's jars in its folder `jars`, and written there.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(600)

HERE = Path(__file__).parent
GOLDEN = HERE / "golden" / "jvm_connector.json"
ENVIRONMENT = Path.home() / ".cache" / "barnabas" / "spark-4.2"
TOPIC = "like-the-connector"
FIRST_MS = 1_780_000_000_000

QUESTIONS: dict[str, dict[str, str]] = {
    "all": {},
    "headers": {"includeHeaders": "true"},
    "offsets": {
        "startingOffsets": json.dumps({TOPIC: {"0": 2, "1": -2, "2": 1}}),
        "endingOffsets": json.dumps({TOPIC: {"0": 5, "1": -1, "2": 1}}),
    },
    "timestamp": {"startingTimestamp": str(FIRST_MS + 3), "startingOffsetsByTimestampStrategy": "latest"},
    "until a timestamp": {"endingTimestamp": str(FIRST_MS + 3)},
    "timestamps": {
        "startingOffsetsByTimestamp": json.dumps({TOPIC: {"0": FIRST_MS + 1, "1": FIRST_MS, "2": FIRST_MS + 99}}),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "minPartitions": {"minPartitions": "7"},
    "maxRecordsPerPartition": {"maxRecordsPerPartition": "4"},
    "both": {"minPartitions": "9", "maxRecordsPerPartition": "5"},
    "stream": {"startingOffsets": "earliest"},
    "stream limited": {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "7"},
    "stream with a least": {
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "10",
        "minOffsetsPerTrigger": "3",
        "maxTriggerDelay": "0s",
    },
}


def connector() -> ModuleType:
    spec = importlib.util.spec_from_file_location("jvm_connector", HERE / "jvm_connector.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def topic(stage: Any) -> str:
    """Twenty records in one partition, seven in the next, one in the last; keys and headers on some."""
    name: str = stage.topic(3, TOPIC, retention_ms="-1")
    stage.write(name, [f"a{index}" for index in range(12)], 0, timestamp_ms=FIRST_MS)
    stage.write(name, [None, *(f"b{index}" for index in range(7))], 0, keys=["k"] * 8, timestamp_ms=FIRST_MS + 12)
    stage.write(name, [f"c{index}" for index in range(7)], 1, headers=(("h", b"1"), ("h", b"2")), timestamp_ms=FIRST_MS)
    stage.write(name, ["d"], 2, timestamp_ms=FIRST_MS)
    return name


@pytest.fixture(scope="module")
def golden(stage: Any, topic: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if os.environ.get("BARNABAS_JVM_CONNECTOR"):
        questions = tmp_path_factory.mktemp("connector") / "questions.json"
        questions.write_text(json.dumps(QUESTIONS))
        jars = ",".join(str(jar) for jar in sorted((ENVIRONMENT / "jars").glob("*.jar")))
        command = [str(ENVIRONMENT / "bin" / "python"), str(HERE / "jvm_connector.py"), stage.servers, topic]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK"))}
        environment["PYSPARK_PYTHON"] = command[0]
        subprocess.run([*command, str(questions), str(GOLDEN), jars], env=environment, check=True, timeout=280)
    found: dict[str, Any] = json.loads(GOLDEN.read_text())
    return found


# The connector makes tasks of empty ranges, and heeds maxRecordsPerPartition alone in streams only.
TASKS_DIFFER = {"offsets", "timestamp", "timestamps", "maxRecordsPerPartition"}


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_answer_is_the_connectors(
    spark: Any, stage: Any, topic: str, golden: dict[str, Any], question: str
) -> None:
    asked = {question: QUESTIONS[question]}
    answer, expected = connector().answers(spark, "barnabas", stage.servers, topic, asked)[question], golden[question]
    if question in TASKS_DIFFER:
        assert answer.pop("tasks") != expected.pop("tasks")
    assert answer == expected
