"""The pipelines in the README run as they stand there."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_s_pipeline_copies_the_greetings(spark: Any, stage: Any, tmp_path: Path) -> None:
    (code,) = re.findall(r"^```python\n(import barnabas\.spark\n.*?)^```", README.read_text(), re.M | re.S)
    stage.topic(name="greetings")
    stage.topic(name="copies")
    stage.write("greetings", ["hello", "good morning"], keys=["en", "en"])
    here = code.replace("localhost:9092", stage.servers).replace("checkpoints/copy", f"{tmp_path}/checkpoint")
    exec(compile(here, "README.md", "exec"), {})
    copies = spark.read.format("barnabas").options(**stage.options({"subscribe": "copies"})).load()
    rows = copies.selectExpr("cast(key as string)", "cast(value as string)").collect()
    assert sorted(map(tuple, rows)) == [("en", "good morning"), ("en", "hello")]


def test_the_readme_s_topology_counts_words(spark: Any, stage: Any, tmp_path: Path) -> None:
    (code,) = re.findall(r"^```python\n(from barnabas\.spark import session\n.*?)^```", README.read_text(), re.M | re.S)
    stage.topic(name="lines")
    stage.topic(name="counts")
    stage.write("lines", ["Hello hello", "good morning"])
    here = code.replace("localhost:9092", stage.servers).replace("checkpoints/word-count", f"{tmp_path}/checkpoint")
    names: dict[str, Any] = {}
    exec(compile(here, "README.md", "exec"), names)
    try:
        deadline = time.monotonic() + 120
        found: dict[str, int] = {}
        while len(found) < 3 and time.monotonic() < deadline:
            counts = spark.read.format("barnabas").options(**stage.options({"subscribe": "counts"})).load()
            found = {bytes(row.key).decode(): int.from_bytes(row.value, "big") for row in counts.collect()}
        assert found == {"hello": 2, "good": 1, "morning": 1}
    finally:
        names["run"].stop()
