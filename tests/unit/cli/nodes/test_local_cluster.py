"""The processes of `barnabas up --brokers N`: in which order they end, and what is said of one that is down."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from barnabas.cli.nodes.local_cluster import ClusterPlan, LocalCluster

# Ends a moment after it is asked to, and writes its name when it does.
ENDS_SLOWLY = """
import signal, sys, time

def end(*_):
    time.sleep(float(sys.argv[2]))
    with open("ended", "a") as ended:
        ended.write(sys.argv[1] + " ")
    sys.exit()

signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
signal.pause()
"""


def cluster_in(directory: Path) -> LocalCluster:
    return LocalCluster(ClusterPlan(directory=directory / "data", brokers=2, controllers=1))


def run(cluster: LocalCluster, node_id: int, directory: Path, ends_after_s: float = 0.0) -> subprocess.Popen[bytes]:
    process = cluster.processes[node_id] = subprocess.Popen(
        [sys.executable, "-c", ENDS_SLOWLY, str(node_id), str(ends_after_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=directory,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.stdout.close()
    return process


def test_controllers_of_their_own_are_stopped_when_no_broker_is_left(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    for node_id, ends_after_s in ((1, 0.0), (101, 0.3), (102, 0.0)):
        run(cluster, node_id, tmp_path, ends_after_s)
    cluster.stop()
    assert (tmp_path / "ended").read_text().split() == ["102", "101", "1"]


def test_of_a_node_that_was_killed_it_is_said_by_what(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    process = run(cluster, 101, tmp_path)
    cluster.log_path(101).write_text("[2026-01-01 00:00:00,000] INFO Node 101 serves clients\n")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdin is not None
    process.stdin.close()
    assert cluster.last_words(101) == "ended by SIGKILL; its log is node-101.log"


def test_of_a_node_that_gave_up_its_last_words_are_repeated(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    process = cluster.processes[102] = subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])
    process.wait()
    cluster.log_path(102).write_text("barnabas: The directory is another node's.\n")
    assert cluster.last_words(102) == "barnabas: The directory is another node's."
