from __future__ import annotations

import subprocess
import sys

import pytest

from barnabas.client.errors import InvalidSetting
from barnabas.pipelines.connect.worker.settings import WorkerSettings

STRING = "org.apache.kafka.connect.storage.StringConverter"


def test_a_converter_that_is_not_there_is_told_when_the_worker_starts() -> None:
    given = {"bootstrap.servers": "x:1", "key.converter": STRING, "value.converter": STRING.replace("er", "r")}
    with pytest.raises(InvalidSetting, match="could not be found, is StringConverter meant"):
        WorkerSettings.from_properties(given, distributed=False)


def test_standalone_workers_do_not_fence_each_other() -> None:
    given = {"bootstrap.servers": "x:1", "key.converter": STRING, "value.converter": STRING}
    groups = [
        WorkerSettings.from_properties(given | {"offset.storage.file.filename": each}, distributed=False).group_id
        for each in ("/tmp/one", "/tmp/two", "/tmp/one")
    ]
    assert groups[0] == groups[2] != groups[1]


def test_a_worker_starts_without_what_only_sparks_process_needs() -> None:
    """It is up within a second; pandas and PySpark alone take as long."""
    heavy = "{'pandas', 'pyarrow', 'pyspark', 'sqlalchemy'}"
    code = f"import sys, barnabas.pipelines.connect.worker.server; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
