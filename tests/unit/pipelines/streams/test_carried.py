"""What a worker could not import travels whole."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from pathlib import Path

import pytest

from barnabas.pipelines.streams.carried import beside_the_script, is_found, send_by_value
from barnabas.pipelines.streams.plan import planned
from barnabas.streams import Topology, TopologyError


def test_a_module_beside_the_script_is_sent_whole_and_one_on_the_workers_path_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_the_pipeline.py").write_text("def double(value):\n    return value * 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("beside_the_pipeline")
    try:
        assert "beside_the_pipeline" in beside_the_script()
        assert "json.decoder" not in beside_the_script()
        assert "pyarrow" not in beside_the_script()
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        assert "beside_the_pipeline" not in beside_the_script()
    finally:
        del sys.modules["beside_the_pipeline"]


def test_a_module_that_an_import_would_not_give_is_not_found() -> None:
    assert is_found("json")
    assert is_found("builtins")  # of aggregate(dict, ...)
    assert is_found("posixpath")
    assert is_found("barnabas.pipelines.streams.carried")
    assert not is_found("no_such_module")


def test_a_module_that_was_loaded_from_a_file_is_not_found_by_another_process(tmp_path: Path) -> None:
    file = tmp_path / "loaded_from_a_file.py"
    file.write_text("def double(value):\n    return value * 2\n")
    spec = importlib.util.spec_from_file_location("loaded_from_a_file", file)
    assert spec is not None
    sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        assert not is_found(spec.name)
    finally:
        del sys.modules[spec.name]


def test_a_function_that_holds_what_no_other_process_can_have_is_told_by_its_operator() -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    lock = threading.Lock()
    topology = Topology("locked")
    topology.stream("in").filter(lambda key, value: True).group_by(lambda key, value: lock.locked()).count().to("out")
    plan = planned(topology.graph, {"in": 1}, {}, state=None, dead_letter=None)
    before = cloudpickle.list_registry_pickle_by_value()
    try:
        with pytest.raises(
            TopologyError, match=r"select-key-2 can't be sent to Spark's workers: cannot pickle '_thread.lock' object"
        ):
            send_by_value(plan)
    finally:
        for name in cloudpickle.list_registry_pickle_by_value() - before:
            cloudpickle.unregister_pickle_by_value(sys.modules[name])
