"""What a worker could not import travels whole."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from barnabas.pipelines.streams.carried import beside_the_script, is_found


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
    assert not is_found("no_such_module")
