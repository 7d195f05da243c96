"""Importing barnabas.spark tells Spark which Python to start, unless somebody has."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import os
import barnabas.spark
print(os.environ.get("PYSPARK_PYTHON"), os.environ.get("PYSPARK_DRIVER_PYTHON"))
from barnabas.pipelines.spark.startup import workers_python
workers_python.choose_for_driver_only()
print(os.environ.get("PYSPARK_PYTHON"), os.environ.get("PYSPARK_DRIVER_PYTHON"))
"""


# As under `barnabas pipeline run`, whose session starts beside a file that takes its time.
LATE = """
import os
from barnabas.pipelines.spark.startup import workers_python
workers_python.use("/tmp/barnabas-forks-x1y2/python")
import barnabas.spark
print(os.environ["PYSPARK_PYTHON"])
"""


def told(program: str = PROGRAM, **variables: str) -> list[str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYSPARK_")}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=kept | variables, capture_output=True, text=True, check=True, timeout=60
    )
    return ran.stdout.splitlines()


def test_where_nobody_has_chosen_it_is_the_python_of_the_program_and_on_a_cluster_that_of_the_driver_only() -> None:
    assert told() == [f"{sys.executable} None", f"None {sys.executable}"]


def test_what_the_user_or_spark_submit_has_chosen_stays() -> None:
    assert told(PYSPARK_PYTHON="/opt/python") == ["/opt/python None"] * 2
    assert told(PYSPARK_PYTHON=sys.executable) == [f"{sys.executable} None"] * 2
    assert told(PYSPARK_GATEWAY_PORT="1") == ["None None"] * 2


def test_the_launcher_of_the_program_that_started_this_one_is_nobodys_choice() -> None:
    inherited = told(PYSPARK_PYTHON="/tmp/barnabas-forks-x1y2/python")
    assert inherited == [f"{sys.executable} None", f"None {sys.executable}"]


def test_a_file_that_imports_it_when_its_session_has_started_leaves_the_launcher_of_that_session() -> None:
    assert told(LATE) == ["/tmp/barnabas-forks-x1y2/python"]
