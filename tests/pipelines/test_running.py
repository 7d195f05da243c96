"""`barnabas pipeline` with real processes: run, fail, be killed, go on, be looked at, stop, be reset."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipelines.running.queries import Queries, UnnamedQueries
from barnabas.pipelines.spark.startup.fork_server import launcher
from barnabas.pipelines.spark.startup.java import JavaMissing, find_java
from barnabas.testing import Node

WAIT_S = 240.0
PIPELINE = Path(__file__).with_name("supervised_pipeline.py")
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def java() -> None:
    try:
        find_java()
    except JavaMissing as missing:
        pytest.skip(str(missing))


class Tool:
    """`barnabas pipeline` on a state directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.words = [sys.executable, "-m", "barnabas", "pipeline", "--state-dir", str(directory / "state")]

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.words, *words], capture_output=True, text=True, timeout=WAIT_S, check=False)

    @contextlib.contextmanager
    def run(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        with (self.directory / "said").open("wb") as said:
            started = subprocess.Popen([*self.words, "run", *words], stdout=said, stderr=said)
        try:
            yield started
        finally:
            started.kill()
            started.wait()

    @property
    def said(self) -> str:
        return (self.directory / "said").read_text()

    def status(self, name: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self("status", name, "--output", "json").stdout or "{}")
        return told

    def wait(self, run: subprocess.Popen[bytes], holds: Callable[[], object], *, ends: bool = False) -> None:
        limit = time.monotonic() + WAIT_S
        while not holds():
            assert ends or run.poll() is None, f"it ended by itself:\n{self.said}"
            assert time.monotonic() < limit, f"it never came true:\n{self.said}"
            time.sleep(0.1)


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    return Tool(tmp_path)


def make_group(node: Node, topic: str) -> None:
    words = ["consumer-groups", "--reset-offsets", "--to-latest", "--execute", "--group", "readers", "--topic", topic]
    command = [sys.executable, "-m", "barnabas", *words, "--bootstrap-server", node.bootstrap_servers]
    subprocess.run(command, capture_output=True, timeout=WAIT_S, check=True)


def only_readers_are_told(node: Node) -> bool:
    """Whether tools that list groups print `readers`, all of them, and no group of a pipeline's own doing."""
    asked = [
        ["lag"],
        ["consumer-groups", "--list"],
        ["consumer-groups", "--describe", "--all-groups"],
        ["groups", "--list"],
    ]
    for words in asked:
        command = [sys.executable, "-m", "barnabas", *words, "--bootstrap-server", node.bootstrap_servers]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=True)
        told = {line.split()[0] for line in done.stdout.splitlines() if line.strip()} - {"GROUP"}
        assert told == {"readers"}, (words, done.stdout)
    return True


def test_a_pipeline_fails_is_killed_goes_on_from_its_checkpoint_stops_and_is_reset(
    tool: Tool, tmp_path: Path, make_stage: Any
) -> None:
    trouble = tmp_path / "trouble"
    with Node({"auto.create.topics.enable": "false"}) as node, make_stage(node.bootstrap_servers) as stage:
        numbers, totals = stage.topic(2, "numbers"), stage.topic(1, "totals")
        stage.write(numbers, ["1", "2"], keys=["a", "b"])
        make_group(node, numbers)

        def results() -> list[tuple[str, str]]:
            return [(key, value) for key, value in stage.read_committed(totals)]

        words = [
            str(PIPELINE),
            "--name",
            "adding",
            "--master",
            "local[2]",
            "--bootstrap-server",
            node.bootstrap_servers,
        ]
        with tool.run(*words, "--", str(trouble)) as run:
            tool.wait(run, lambda: sorted(results()) == [("a", "1"), ("b", "2")])
            tool.wait(run, lambda: tool.status("adding").get("queries", [{}])[0].get("rows") == 2)

            told = tool.status("adding")
            assert (told["state"], told["restarts"], told["lag"], told["pid"]) == ("running", 0, 0, run.pid)
            listed = tool("list").stdout.splitlines()
            assert listed[0].split()[:4] == ["NAME", "STATE", "SINCE", "PID"]
            assert listed[1].split()[:2] == ["adding", "running"]
            again = tool("run", *words, "--", str(trouble))
            assert (again.returncode, again.stderr) == (
                1,
                f"Pipeline adding is running already, as process {run.pid}.\n",
            )
            refused = tool("reset", "adding")
            assert (refused.returncode, "is running" in refused.stderr) == (1, True)

            trouble.touch()  # a batch fails, and is done by the next driver
            stage.write(numbers, ["10"], keys=["a"])
            tool.wait(run, lambda: ("a", "11") in results())
            assert "RuntimeError: there is trouble; starting again in 1 s" in tool.said
            assert not trouble.exists()

            os.kill(tool.status("adding")["driver_pid"], signal.SIGKILL)
            stage.write(numbers, ["100"], 1, keys=["a"])
            tool.wait(run, lambda: ("a", "111") in results())
            assert "the driver was killed by SIGKILL" in tool.said
            assert tool.status("adding")["restarts"] == 2
            assert only_readers_are_told(node)

            stopped = tool("stop", "adding")
            assert (stopped.returncode, stopped.stdout) == (0, "Pipeline adding has stopped.\n")
            assert run.wait(WAIT_S) == 0
        assert sorted(results()) == [("a", "1"), ("a", "11"), ("a", "111"), ("b", "2")]
        assert stage.open_transactions() == []
        assert only_readers_are_told(node)
        assert tool("status", "adding").returncode == 3
        checkpoint = tmp_path / "state" / "adding" / "checkpoints" / "totals"
        assert (checkpoint / "offsets" / "2").exists()
        assert str(checkpoint.parent.parent) in tool("reset", "adding", "--dry-run").stdout
        assert checkpoint.exists()
        assert tool("reset", "adding").stdout.startswith(f"deleted: {checkpoint.parent.parent}\n")
        assert not checkpoint.exists()
        assert tool("stop", "adding").stderr.startswith("There is no pipeline adding in ")


def test_what_is_wrong_in_the_file_is_told_in_one_sentence_and_not_tried_again(tool: Tool, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("rows = (\n")
    ended = tool("run", str(broken))
    told = f"broken: starting Spark\nbroken: {broken}, line 1: '(' was never closed\n"
    assert (ended.returncode, ended.stderr) == (1, told)
    assert tool.status("broken")["state"] == "failed"
    assert tool("run", str(tmp_path / "none.py")).stderr == f"{tmp_path / 'none.py'} is no file.\n"
    assert "is no name of a pipeline" in tool("run", str(broken), "--name", "a/b").stderr
    assert "--conf takes key=value" in tool("run", str(broken), "--conf", "x").stderr


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            "rows = spark.readStream.format('barnabas').options(subscribe='t', startingOffsets='begin').load()",
            "startingOffsets is earliest, latest or offsets in JSON, not 'begin'",
        ),
        ("Topology('t').stream('t').flat_map_values(lambda a, b, c: a)", "needs a function of the value"),
        ("Topology('t').stream('t').to('u', valeu=STRING)", "line 4: TypeError: "),
        ("topology = Topology('t')\ntopology.stream('t')\ntopology.start(spark)", "topology t has no sink"),
        ("topology = Topology('t')\ntopology.stream('t').to('u')\ntopology.start(spark)", "cannot be reached"),
        (
            "t = Topology('t')\nt.stream('t').to('u')\nt.start(spark, trigger={'availablNow': True})",
            "start() has a trigger 'availablNow': is availableNow meant?",
        ),
        ("spark.readStream.format('barnabas').option('subscribe', 't').load()", "127.0.0.1:1 cannot be reached"),
        ("pass", "started no streaming query"),
    ],
)
def test_what_can_be_known_without_spark_is_told_before_it_starts(
    tool: Tool, tmp_path: Path, lines: str, said: str
) -> None:
    app = tmp_path / "wrong.py"
    app.write_text(
        "import barnabas.spark\nfrom barnabas.streams import STRING, Topology\n"
        f"spark = barnabas.spark.session()\n{lines}\n"
    )
    words = ("--master", "local[1]", "--bootstrap-server", "127.0.0.1:1", "--max-restarts", "0")
    ended = tool("run", str(app), *words)
    assert ended.returncode == 1
    started, told = ended.stderr.splitlines()
    assert (started, said in told) == ("wrong: starting Spark", True), told
    log = (tmp_path / "state" / "wrong" / "driver.log").read_text()
    assert "NativeCodeLoader" not in log, "a session was started"  # which tells so by its first line


LATE = """
import barnabas.spark
from barnabas.streams import STRING, Topology

spark = barnabas.spark.session()
topology = Topology("late", processing_guarantee="exactly_once_v2")
words = topology.stream("lines", value=STRING).peek(lambda key, line: print("seen", line))
words.flat_map_values(str.split).group_by(lambda key, word: word).count().to("counts")
topology.start(spark, bootstrap_servers=SERVERS)
"""


def test_a_topic_that_comes_later_is_waited_for_and_what_functions_print_is_seen(
    tool: Tool, tmp_path: Path, make_stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = tmp_path / "late.py"
    with (
        tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as temporary,  # a short name, for the sockets in it
        Node({"auto.create.topics.enable": "false"}) as node,
        make_stage(node.bootstrap_servers) as stage,
    ):
        monkeypatch.setenv("PYSPARK_PYTHON", launcher())  # as where this process has a session of its own
        monkeypatch.setenv("TMPDIR", temporary)
        app.write_text(LATE.replace("SERVERS", repr(node.bootstrap_servers)))
        with tool.run(str(app), "--master", "local[2]") as run:
            missing = "topic lines can't be read: the topic does not exist"
            tool.wait(run, lambda: f"late: {missing}; waiting for it\n" in tool.said)
            tool.wait(run, lambda: tool.status("late").get("waits_for") == missing)
            stage.write(stage.topic(1, "lines"), ["one two three four five six seven"])
            stage.topic(4, "counts")
            seen = "seen one two three four five six seven\n"
            tool.wait(run, lambda: seen in tool.said)
            tool.wait(run, lambda: tool.status("late")["queries"][0]["batch"] == 0)
            told = tool.status("late")
            assert told["queries"][0]["rows"] == 1
            assert (told["restarts"], told["waits_for"]) == (0, None)
            assert told["bootstrap_servers"] == node.bootstrap_servers
            assert list(Path(temporary).glob("barnabas-*"))
            assert tool("stop", "late").returncode == 0
            run.wait(WAIT_S)
        assert list(Path(temporary).glob("barnabas-*")) == []
        assert tool.said.count("starting Spark") == 1


def test_queries_that_come_to_their_end_finish_the_run_and_the_only_one_needs_no_name(
    tool: Tool, tmp_path: Path
) -> None:
    app = tmp_path / "once.py"
    app.write_text(
        "import barnabas.spark, sys\n"
        "rows = barnabas.spark.session().readStream.format('rate-micro-batch').option('rowsPerBatch', 5).load()\n"
        "print('arguments', sys.argv[1:])\n"
        "rows.writeStream.format('noop').trigger(once=True).start()\n"
    )
    ended = tool("run", str(app), "--master", "local[1]", "--", "--flag", "x")
    assert (ended.returncode, ended.stdout) == (0, "arguments ['--flag', 'x']\n")
    assert "once: finished: every query came to its end" in ended.stderr.splitlines()
    assert tool.status("once")["state"] == "finished"
    assert (tmp_path / "state" / "once" / "checkpoints" / "query" / "commits" / "0").exists()


def test_a_second_query_without_a_name_is_refused_and_one_with_a_checkpoint_needs_none(
    spark: Any, tmp_path: Path
) -> None:
    def start(*, name: str | None = None, **options: str) -> Any:
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
        return rows.writeStream.format("noop").options(**options).trigger(once=True).start(queryName=name)

    queries = Queries()
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    try:
        with queries.registered():
            start()
            start(name="named")
            start(checkpointLocation=str(tmp_path / "elsewhere"))
            with pytest.raises(UnnamedQueries, match="more than one query has neither a name nor a checkpointLocation"):
                start()
        assert [each.name for each in queries.watched] == ["query", "named", "elsewhere"]
        for each in queries.watched:
            assert each.query.awaitTermination(WAIT_S)
            told = each.look()
            assert (told.active, told.batch, told.rows) == (False, 0, 5)
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")


def test_in_a_terminal_a_table_stays_below_what_the_file_prints() -> None:
    """Through a real terminal's end: what is drawn, and that nothing of it breaks."""
    import pty

    program = (
        "from barnabas.cli.pipeline_screen import Table, audience\n"
        "from barnabas.pipelines.running.status import QueryStatus, Status\n"
        "with audience('plant', 1) as shown:\n"
        "    assert isinstance(shown, Table)\n"
        "    shown.show(Status(name='plant', state='running', restarts=2, queries=(QueryStatus(name='upper', batch=7,"
        " rows=1234, lag=56),)))\n"
        "    shown.printed(b'printed [bold]\\nhalf')\n"
        "    shown.tell('stopping')\n"
    )
    leader, follower = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "120"}
    environment.pop("NO_COLOR", None)
    shown = subprocess.Popen([sys.executable, "-c", program], stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    drawn = b""
    with contextlib.suppress(OSError):  # how a terminal ends
        while more := os.read(leader, 65536):
            drawn += more
    os.close(leader)
    assert shown.wait(60) == 0, drawn.decode()
    for words in (b"2 restarts", b"upper", b"1,234", b"56", b"printed [bold]", b"half", b"plant: stopping"):
        assert words in drawn


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "nothing.py"), "nothing.py is no file."),
        (("run", str(PIPELINE), "--master", "nonsense"), "--master takes local[2], spark://host:7077, yarn or k8s://"),
        (("run", str(PIPELINE), "--max-restarts", "-1"), "--max-restarts takes 0 or more, not -1."),
        (("run", str(PIPELINE), "--name", "a/b"), "'a/b' is no name of a pipeline"),
        (("run", str(PIPELINE), "--conf", "nonsense"), "--conf takes key=value, not 'nonsense'."),
        (("status", "nobody"), "There is no pipeline nobody in"),
        (("stop", "nobody"), "There is no pipeline nobody in"),
        (("reset", "../.."), "'../..' is no name of a pipeline"),
    ],
)
def test_bad_words_are_told_in_a_sentence(tool: Tool, words: tuple[str, ...], said: str) -> None:
    ended = tool(*words)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert said in ended.stderr.splitlines()[0]
    assert "Traceback" not in ended.stderr
