"""What operators have done, in figures: by operator and by partition, added up over workers."""

from __future__ import annotations

import json
from pathlib import Path

from barnabas.pipelines.streams.describe import described
from barnabas.pipelines.streams.figures import Figures, OperatorFigures, StateFigures, WorkerSums, read_figures
from barnabas.pipelines.streams.plan import planned
from barnabas.pipelines.streams.state.storage import LocalDirectory
from barnabas.streams import LONG, STRING, Topology, TopologyTestDriver, tumbling


def counting(**settings: object) -> Topology:
    topology = Topology(on_error="skip", **settings)  # type: ignore[arg-type]
    numbers = topology.stream("in", value=STRING).map_values(lambda value: 10 // int(value))
    numbers.group_by_key().windowed_by(tumbling(10)).count().to("out", value=LONG)
    return topology


def test_rows_late_and_skipped_records_are_counted_by_operator() -> None:
    topology = counting()
    with TopologyTestDriver(topology) as driver:
        for value, time in (("1", 0), ("2", 25), ("0", 26), ("5", 3), ("5", 27)):
            driver.pipe_input("in", "a", value, timestamp_ms=time)
            driver.read_output("out")
        figures = driver.figures()
    told = {name: (one.rows_in, one.rows_out, one.late, one.skipped) for name, one in figures.operators.items()}
    assert [row for name, row in told.items() if name.startswith("source")] == [(5, 5, 0, 0)]
    assert [row for name, row in told.items() if name.startswith("map-values")] == [(5, 4, 0, 1)]
    assert [row[2] for name, row in told.items() if "window" in name or "count" in name] == [1]
    assert [row for name, row in told.items() if name.startswith("sink")] == [(3, 3, 0, 0)]
    assert all(one.seconds >= 0 for one in figures.operators.values())
    (state,) = figures.state.values()
    assert state.rows > 0
    assert state.bytes > 0
    assert not state.on_disk
    text = described(topology, figures)
    assert "[5 in, 4 out, " in text
    assert "1 skipped]" in text
    assert "1 late]" in text
    assert f"State: {state.rows} rows" in text


def test_branches_count_rows_and_not_each_other() -> None:
    topology = Topology()
    big, small = topology.stream("in", value=STRING).branch(lambda key, value: value > "4", lambda key, value: True)
    big.to("big")
    small.to("small")
    with TopologyTestDriver(topology) as driver:
        for value in "1728396":
            driver.pipe_input("in", "a", value)
        told = [(name, one.rows_in, one.rows_out) for name, one in driver.figures().operators.items()]
    assert told[1:4] == [("branch-1", 7, 7), ("branch-output-2", 7, 4), ("branch-output-3", 7, 3)]


def test_state_on_disk_tells_of_its_cache() -> None:
    with TopologyTestDriver(counting(state_cache_bytes=0)) as driver:
        for time in range(5):
            driver.pipe_input("in", "a", "1", timestamp_ms=time)
            driver.read_output("out")
        (state,) = driver.figures().state.values()
    assert state.on_disk
    assert state.hits + state.misses > 0


def test_figures_of_workers_are_added_up_and_the_newest_state_of_a_partition_counts(tmp_path: Path) -> None:
    topology = counting()
    plan = planned(topology.graph, {"in": 1}, {}, state=f"{tmp_path}/barnabas/state", dead_letter=None)
    checkpoint = LocalDirectory(tmp_path)
    assert read_figures(checkpoint) is None
    sums = WorkerSums("run")
    sums.add({"map-values-1": OperatorFigures(5, 4, skipped=1, seconds=0.5)})
    sums.figures.state["0/0"] = StateFigures(batch=3, rows=7, bytes=70, hits=1)
    sums._write(plan)
    other = Figures({"map-values-1": OperatorFigures(1, 1)}, {"0/0": StateFigures(batch=2, rows=1, bytes=1, hits=4)})
    checkpoint.under("barnabas", "figures").write("other-1.json", json.dumps(other.to_json()).encode())
    found = read_figures(checkpoint)
    assert found is not None
    assert found.operators == {"map-values-1": OperatorFigures(6, 5, skipped=1, seconds=0.5)}
    assert found.state == {"0/0": StateFigures(batch=3, rows=7, bytes=70, hits=5)}
    found.state["0/1"] = StateFigures(batch=3, rows=1, bytes=5, misses=2)
    assert found.summary() == {
        "operators": {"map-values-1": {"rows_in": 6, "rows_out": 5, "skipped": 1, "seconds": 0.5}},
        "state": {"rows": 8, "bytes": 75, "hits": 5, "misses": 2},
    }
