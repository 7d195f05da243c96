"""Our command-line tools beside Kafka's, against the same broker: the factor of their rates and times."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.case import Case, Figures, Settings, drop_topic, new_topic
from benchmarks.sides import Side
from tests.support import reference
from tests.support.reference_libs import classpath_options, java

# What kafka-producer-perf-test.sh gives the tool.
TOOL_JVM = ("-Xmx512M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
RATE = re.compile(r"([\d.]+) records/sec")
CONSUMED_RATE_COLUMN = 5


def tools(side: Side, settings: Settings) -> Figures:
    topic = new_topic(side, "tools")
    records = settings.records_100
    servers = side.bootstrap_servers
    produce = ("--topic", topic, "--num-records", str(records), "--record-size", "100", "--throughput", "-1")
    produce = (*produce, "--bootstrap-server", servers)
    theirs = _produced(kafkas("kafka-producer-perf-test", *produce))
    ours = _produced(barnabas("producer-perf-test", *produce))
    consume = ("--bootstrap-server", servers, "--topic", topic, "--num-records", str(2 * records), "--hide-header")
    their_reading = _consumed(kafkas("kafka-consumer-perf-test", *consume))
    our_reading = _consumed(barnabas("consumer-perf-test", *consume))
    listing = ("--bootstrap-server", servers, "--list")
    their_start_s = _took(lambda: kafkas("kafka-topics", *listing))
    our_start_s = _took(lambda: barnabas("topics", *listing))
    drop_topic(side, topic)
    return {
        "tools.produce.factor": ours / theirs,
        "tools.consume.factor": our_reading / their_reading,
        "tools.list": our_start_s,
        "tools.list.factor": our_start_s / their_start_s,
    }


def kafkas(tool: str, *arguments: str) -> str:
    return _run([java(), *TOOL_JVM, *classpath_options(), reference.TOOLS[tool], *arguments])


def barnabas(tool: str, *arguments: str) -> str:
    return _run([sys.executable, "-m", "barnabas", tool, *arguments])


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=os.environ)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[-8:])} failed: {done.stderr}")
    return done.stdout


def _produced(said: str) -> float:
    found = RATE.search(said.strip().splitlines()[-1])
    assert found is not None, said
    return float(found[1])


def _consumed(said: str) -> float:
    return float(said.strip().splitlines()[-1].split(",")[CONSUMED_RATE_COLUMN])


def _took(work: Callable[[], str]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


TOOL_CASES = [Case("tools", "the tools of ours beside Kafka's, against the same broker", tools)]
