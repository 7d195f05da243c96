"""The demo as a user runs it, only shorter: everything is checked by the demo itself, and it leaves nothing running."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.dom.minidom
from pathlib import Path

import pytest

from barnabas.pipelines.spark.startup.java import JavaMissing, find_java

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


def run_demo(*arguments: str, limit_s: float) -> subprocess.CompletedProcess[str]:
    """In a session of its own, so that what it leaves behind is found there."""
    return subprocess.run(
        [sys.executable, str(DEMO), *arguments], capture_output=True, text=True, timeout=limit_s, start_new_session=True
    )


def processes_with(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


@pytest.mark.timeout(200)
def test_the_demo_checks_itself_draws_a_picture_and_leaves_nothing_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        find_java()
    except JavaMissing as missing:
        pytest.skip(str(missing))
    mark = f"demo-{os.getpid()}"
    monkeypatch.setenv("BARNABAS_DEMO_MARK", mark)
    output = tmp_path / "out"
    ran = run_demo("--seconds", "8", "--rate", "200", "--output", str(output), limit_s=190)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = re.findall(
        r"(measurements|alerts|averages|Parquet rows) +([\d,]+) +([\d,]+)  each exactly once", ran.stdout
    )
    assert [name for name, _, _ in found] == ["measurements", "alerts", "averages", "Parquet rows"]
    assert all(due == came and due != "0" for _, due, came in found)
    assert re.search(r"latency from reading to alert: p50 \d+ ms, p99 \d+ ms", ran.stdout)
    picture = xml.dom.minidom.parse(str(output / "plant.svg"))
    assert len(picture.getElementsByTagName("polyline")) == 5
    assert [line for line in processes_with(mark) if "pytest" not in line] == []


def test_without_a_broker_the_demo_says_so_at_once(tmp_path: Path) -> None:
    ran = run_demo("--bootstrap-server", "127.0.0.1:1", "--output", str(tmp_path), limit_s=60)
    assert ran.returncode == 1
    assert ran.stderr == "The demo failed: 127.0.0.1:1 cannot be reached: connection refused.\n"
