"""The pipeline in the README runs as it stands there."""

from __future__ import annotations

import re
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
