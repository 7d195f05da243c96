"""What Spark does with every topology at its start: its functions are pickled, and a worker that has never heard of the
examples reads them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from barnabas.pipelines.streams.carried import send_by_value
from barnabas.pipelines.streams.plan import planned
from barnabas.pipelines.streams.stage import StageFunction

NAMES = ("word_count", "bank_alerts", "social_posts", "taxi_surge", "resume_positions", "plant_pipelines")


def test_a_worker_reads_the_functions_of_every_example(example: Callable[[str], Any], tmp_path: Path) -> None:
    before = cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]
    for name in NAMES:
        module = example(name)
        graph = (module.topology if name == "plant_pipelines" else module.build)().graph
        tables = [one.topic for one in graph.global_tables]
        plan = planned(graph, dict.fromkeys([*graph.topics(), *tables], 3), {}, state="nowhere", dead_letter=None)
        send_by_value(plan)
        stages = [StageFunction(plan, stage.number) for stage in plan.stages]
        (tmp_path / name).write_bytes(cloudpickle.dumps(stages))  # type: ignore[no-untyped-call]
    for name in cloudpickle.list_registry_pickle_by_value() - before:  # type: ignore[no-untyped-call]
        cloudpickle.unregister_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]
    reading = "import pickle, sys\nfor file in sys.argv[1:]: pickle.load(open(file, 'rb'))"
    files = [str(tmp_path / name) for name in NAMES]
    subprocess.run([sys.executable, "-W", "ignore", "-c", reading, *files], check=True, cwd=tmp_path, timeout=100)
