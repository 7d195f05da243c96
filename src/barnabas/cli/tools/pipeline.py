"""`barnabas pipeline`: runs a file of streaming queries for as long as it takes, and tells of those that run."""

from __future__ import annotations

import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.cli.connect import (
    BOOTSTRAP_SERVER_ONLY,
    COMMAND_CONFIG,
    OUTPUT,
    bootstrap,
    key_values,
    nearest,
    properties_of,
    wants_json,
)
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, Positional, option
from barnabas.cli.output import print_json

if TYPE_CHECKING:
    from barnabas.pipelines.running.place import Place
    from barnabas.pipelines.running.status import QueryStatus, Status

STATE_DIR = option(
    "--state-dir",
    takes="directory",
    help="Where pipelines keep their state: BARNABAS_STATE, or ~/.local/state/barnabas/pipelines.",
    completes="file",
)
NAME = Positional(name="name", help="The pipeline's name.")
MASTER = re.compile(r"local(\[[^]]*])?|local-cluster\[.*]|yarn|(spark|k8s)://.+")
NOT_RUNNING = 3  # the exit code of `status` for a pipeline that does not run, as of a service

PARSER = Parser(
    name="pipeline",
    summary="Run a file of streaming queries on Spark, with restarts and resumed from its checkpoints.",
    beyond_kafka=True,
    help_exit=0,
    options=(STATE_DIR,),
    commands=(
        Parser(
            name="run",
            summary="Run a Python file that starts streaming queries; what follows -- goes to the file.",
            positionals=(
                Positional(name="app.py", help="The file.", completes="file"),
                Positional(name="arguments", help="For the file, behind --.", many=True, required=False),
            ),
            options=(
                BOOTSTRAP_SERVER_ONLY,
                option("--name", takes="name", help="The pipeline's name; without it the file's."),
                option("--master", takes="master", help="A Spark master; local[*] without it."),
                option("--conf", "-c", takes="key=value", repeated=True, help="A setting of Spark's; may be repeated."),
                option(
                    "--checkpoints",
                    takes="directory",
                    help="Where checkpoints go instead of the state directory, for a Spark of several machines.",
                ),
                option(
                    "--max-restarts",
                    takes="count",
                    kind=int,
                    help="Give up after so many failures in a row; with 0, wait for nothing.",
                ),
                option(
                    "--stop-timeout",
                    takes="seconds",
                    kind=float,
                    default=30.0,
                    help="How long a batch may take to end when the pipeline is stopped, before it is broken off.",
                ),
                option(
                    "--interval",
                    takes="seconds",
                    kind=float,
                    default=10.0,
                    help="Between two lines of progress, where there is no terminal.",
                ),
                option("--verbose", help="Spark's log and the tracebacks of failures, on stderr."),
            ),
        ),
        Parser(name="list", summary="The pipelines that run, and those that ran.", options=(OUTPUT,)),
        Parser(
            name="status",
            summary="One pipeline and its queries; exit code 3 if it does not run.",
            positionals=(NAME,),
            options=(OUTPUT,),
        ),
        Parser(
            name="metrics",
            summary="Figures of pipelines in Prometheus' text format: queries, operators and state of topologies.",
            positionals=(Positional(name="name", help="Only this one.", required=False),),
        ),
        Parser(
            name="stop",
            summary="Stop a pipeline when its batches at hand are done.",
            positionals=(NAME,),
            options=(
                option("--timeout", takes="seconds", kind=float, default=90.0, help="How long to wait for its end."),
            ),
        ),
        Parser(
            name="reset",
            summary="Delete the checkpoints of a pipeline that does not run: it begins anew.",
            positionals=(NAME,),
            options=(
                option("--query", takes="query", repeated=True, help="Only these queries' checkpoints."),
                option("--dry-run", help="Say what would be deleted, and delete nothing."),
            ),
        ),
        Parser(
            name="rescale",
            summary="Move the state of a topology that does not run to a topic's new number of partitions.",
            positionals=(
                Positional(name="name|checkpoint", help="A pipeline's name, or the address of a checkpoint."),
            ),
            options=(
                option(
                    "--partitions",
                    takes="count",
                    repeated=True,
                    help="How many partitions the topics have now that the topology reads; as topic=count of one.",
                ),
                BOOTSTRAP_SERVER_ONLY,
                COMMAND_CONFIG,
                option("--query", takes="query", help="Which topology, where a pipeline has several."),
                option("--conf", "-c", takes="key=value", repeated=True, help="A setting of the checkpoint's storage."),
                option("--stopped", help="A topology that has not told its end was killed, and does not run."),
            ),
        ),
    ),
)


def run(parsed: Parsed) -> int:
    commands = {
        "run": _run, "list": _list, "status": _status, "stop": _stop, "reset": _reset, "metrics": _metrics,
        "rescale": _rescale,
    }  # fmt: skip
    return commands[parsed.command or ""](parsed)


def _place(parsed: Parsed, name: str) -> Place:
    from barnabas.pipelines.running.place import Place, is_name, state_directory

    if not is_name(name):
        raise UsageError(f"'{name}' is no name of a pipeline: letters, digits, '.', '_' and '-'.")
    return Place(state_directory(parsed.text("state-dir")), name)


def _known(parsed: Parsed) -> tuple[Place, Status]:
    from barnabas.pipelines.running.place import places
    from barnabas.pipelines.running.status import read

    place = _place(parsed, parsed.rest[0])
    status = read(place)
    if status is None:
        names = [each.name for each in places(place.state)]
        raise ToolFailed(f"There is no pipeline {place.name} in {place.state}.{nearest(place.name, names)}")
    return place, status


def _check_options(parsed: Parsed) -> None:
    for name in ("max-restarts", "stop-timeout", "interval"):
        if float(parsed.text(name) or 0) < 0:
            raise UsageError(f"--{name} takes 0 or more, not {parsed.text(name)}.")
    master = parsed.text("master")
    if master and not MASTER.fullmatch(master):
        raise UsageError(f"--master takes local[2], spark://host:7077, yarn or k8s://..., not '{master}'.")


def _run(parsed: Parsed) -> int:
    from barnabas.cli.pipeline_screen import audience
    from barnabas.pipelines.running.launch import Launch
    from barnabas.pipelines.running.lock import RunLock, holder
    from barnabas.pipelines.running.supervisor import Supervisor

    app = Path(parsed.rest[0])
    if not app.is_file():
        raise ToolFailed(f"{app} is no file.")
    for pair in parsed.texts("conf"):
        if "=" not in pair:
            raise UsageError(f"--conf takes key=value, not '{pair}'.")
    _check_options(parsed)
    place = _place(parsed, parsed.text("name") or app.stem)
    master, checkpoints = parsed.text("master"), parsed.text("checkpoints")
    launch = Launch(
        name=place.name,
        app=str(app.absolute()),
        arguments=tuple(parsed.rest[1:]),
        master=master,
        conf=key_values(parsed.texts("conf")),
        bootstrap_servers=parsed.text("bootstrap-server") or bootstrap(parsed, missing=None),
        checkpoints=checkpoints or str(place.checkpoints),
        drain_file=str(place.drain_file),
        stop_timeout_s=float(parsed.text("stop-timeout") or 0),
        patient=parsed.number("max-restarts") != 0,
    )
    lock = RunLock.take(place)
    if lock is None:
        raise ToolFailed(f"Pipeline {place.name} is running already, as process {holder(place)}.")
    with audience(place.name, float(parsed.text("interval") or 0)) as shown:
        supervisor = Supervisor(
            place, launch, lock, shown, restarts_max=parsed.number("max-restarts"), verbose="verbose" in parsed
        )
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: supervisor.ask_to_stop())
        if checkpoints is None and master is not None and not master.startswith("local"):
            shown.tell(f"checkpoints are in {place.checkpoints}, which every machine of {master} must see")
        try:
            return supervisor.run()
        finally:
            lock.release()


def _list(parsed: Parsed) -> int:
    from barnabas.cli.pipeline_screen import duration
    from barnabas.pipelines.running.place import places, state_directory
    from barnabas.pipelines.running.status import read

    found = [status for place in places(state_directory(parsed.text("state-dir"))) if (status := read(place))]
    if wants_json(parsed):
        print_json([_json(status) for status in found])
        return 0
    if not found:
        print("No pipeline has run here.", file=sys.stderr)
        return 0
    now_ms = time.time_ns() // 1_000_000
    rows = [["NAME", "STATE", "SINCE", "PID", "QUERIES", "ROWS/S", "LAG", "RESTARTS", "FILE"]]
    for status in found:
        rows.append(
            [
                status.name,
                status.state,
                duration(now_ms - status.state_since_ms),
                str(status.pid) if status.is_live else "-",
                str(sum(query.active for query in status.queries)),
                f"{status.rows_per_second:,.0f}",
                "-" if status.lag is None else f"{status.lag:,}",
                str(status.restarts),
                status.app,
            ]
        )
    _print_table(rows)
    return 0


def _status(parsed: Parsed) -> int:
    from barnabas.cli.pipeline_screen import HEADER, headline, query_cells

    place, status = _known(parsed)
    if wants_json(parsed):
        print_json(_json(status))
        return 0 if status.is_live else NOT_RUNNING
    print(headline(status).replace("   Ctrl-C stops", ""))
    facts = {
        "file": " ".join([status.app, *status.arguments]),
        "process": f"{status.pid}, driver {status.driver_pid or '-'}" if status.is_live else None,
        "brokers": status.bootstrap_servers,
        "waits for": status.waits_for,
        "log": str(place.log_file),
        "last failure": status.failure,
    }
    for name, fact in facts.items():
        if fact:
            print(f"{name + ':':14}{fact}")
    if status.queries:
        print()
        _print_table([list(HEADER), *(list(query_cells(query)) for query in status.queries)])
        print()
        for query in status.queries:
            print(f"checkpoint of {query.name}: {query.checkpoint}")
            _print_figures(query)
    return 0 if status.is_live else NOT_RUNNING


def _print_figures(query: QueryStatus) -> None:
    from barnabas.cli.pipeline_figures import OPERATOR_HEADER, operator_rows, state_sentence

    if rows := operator_rows(query):
        print()
        _print_table([list(OPERATOR_HEADER), *rows])
    if state := state_sentence(query):
        print(f"state of {query.name}: {state}")


def _metrics(parsed: Parsed) -> int:
    from barnabas.cli.pipeline_figures import exposition
    from barnabas.pipelines.running.place import places, state_directory
    from barnabas.pipelines.running.status import read

    if parsed.rest:
        found = [_known(parsed)[1]]
    else:
        found = [status for place in places(state_directory(parsed.text("state-dir"))) if (status := read(place))]
    print(exposition(found), end="")
    return 0


def _stop(parsed: Parsed) -> int:
    from barnabas.pipelines.running.lock import holder, is_running

    place, status = _known(parsed)
    if not is_running(place):
        print(f"Pipeline {place.name} does not run: it is {status.state}.")
        return 0
    place.stop_file.touch()
    timeout_s = float(parsed.text("timeout") or 0)
    ends = time.monotonic() + timeout_s
    while is_running(place):
        if time.monotonic() > ends:
            raise ToolFailed(
                f"Pipeline {place.name} has not ended within {timeout_s:.0f} s; it was asked to, as process "
                f"{holder(place)}."
            )
        time.sleep(0.1)
    print(f"Pipeline {place.name} has stopped.")
    return 0


def _reset(parsed: Parsed) -> int:
    import shutil

    from barnabas.pipelines.running.lock import RunLock, holder

    place, status = _known(parsed)
    lock = RunLock.take(place)
    if lock is None:
        raise ToolFailed(f"Pipeline {place.name} is running, as process {holder(place)}: stop it first.")
    try:
        doomed = _doomed(place, parsed.texts("query"))
        would = "would be deleted" if "dry-run" in parsed else "deleted"
        for path in doomed:
            if "dry-run" not in parsed:
                shutil.rmtree(path)
            print(f"{would}: {path}")
        for query in status.queries:
            if not Path(query.checkpoint.removeprefix("file:")).is_relative_to(place.directory):
                print(f"left: the checkpoint of {query.name}, which is elsewhere: {query.checkpoint}")
    finally:
        lock.release()
    if "dry-run" not in parsed:
        print(f"Pipeline {place.name} begins anew with its next run, and writes its results again.")
    return 0


def _rescale(parsed: Parsed) -> int:
    from barnabas.pipelines.running.lock import RunLock, holder

    target = parsed.rest[0]
    if "/" in target:
        servers = parsed.text("bootstrap-server") or bootstrap(parsed, missing=None)
        return _rescale_checkpoint(parsed, target, servers)
    place, status = _known(parsed)
    found = _topologies(place, status)
    if chosen := parsed.text("query"):
        found = {name: address for name, address in found.items() if name == chosen}
    if len(found) != 1:
        told = f"has several topologies: choose one by --query: {', '.join(found)}" if found else "has no such topology"
        raise ToolFailed(f"Pipeline {place.name} {told}.")
    lock = RunLock.take(place)
    if lock is None:
        raise ToolFailed(f"Pipeline {place.name} is running, as process {holder(place)}: stop it first.")
    try:
        servers = parsed.text("bootstrap-server") or status.bootstrap_servers
        return _rescale_checkpoint(parsed, next(iter(found.values())), servers)
    finally:
        lock.release()


def _topologies(place: Place, status: Status) -> dict[str, str]:
    """Their checkpoints, by their names: those that its last run told of, and those that lie here. A run that was
    refused because a topic had grown told of none."""
    marks = sorted(place.checkpoints.glob("*/barnabas/topology.json"))
    here = {path.parents[1].name: str(path.parents[1]) for path in marks}
    return here | {query.name: query.checkpoint for query in status.queries if query.figures is not None}


def _rescale_checkpoint(parsed: Parsed, address: str, servers: str) -> int:
    from barnabas.pipelines.streams.errors import StreamsError
    from barnabas.pipelines.streams.rescaling import rescale
    from barnabas.pipelines.streams.state.remote import storage_settings
    from barnabas.pipelines.streams.state.storage import Storage

    partitions = _partitions(parsed.texts("partitions"))
    properties = {**properties_of(parsed), "bootstrap.servers": servers} if servers else None
    checkpoint = Storage(storage_settings(key_values(parsed.texts("conf")))).at(address)
    try:
        moved = rescale(checkpoint, partitions, properties, is_stopped="stopped" in parsed)
    except StreamsError as error:
        raise ToolFailed(f"{error}.") from error
    changes = ", ".join(f"{topic} {moved.before[topic]} -> {count}" for topic, count in sorted(moved.after.items()))
    print(f"{moved.entries:,} rows of state are placed anew, {moved.elsewhere:,} of them elsewhere: {changes}.")
    if properties is None:
        print("Topics were not looked at: name a --bootstrap-server to know that nothing waits in them.")
    return 0


def _partitions(given: list[str]) -> int | dict[str, int]:
    found: dict[str, int] = {}
    for one in given:
        topic, _, count = one.rpartition("=")
        if not count.isdigit() or (not topic and len(given) > 1):
            raise UsageError(f"--partitions takes a number, or topic=number for each topic, not '{one}'.")
        found[topic] = int(count)
    if not found:
        raise UsageError("--partitions is missing: how many partitions do the topics have now?")
    return found.get("", found)


def _doomed(place: Place, queries: list[str]) -> list[Path]:
    if not queries:
        return [place.directory]
    missing = [name for name in queries if not (place.checkpoints / name).is_dir()]
    if missing:
        there = [entry.name for entry in place.checkpoints.iterdir()] if place.checkpoints.is_dir() else []
        raise ToolFailed(f"There is no checkpoint of query {missing[0]} here.{nearest(missing[0], there)}")
    return [place.checkpoints / name for name in queries]


def _json(status: Status) -> dict[str, Any]:
    return status.to_json() | {"rows_per_second": status.rows_per_second, "lag": status.lag}


def _print_table(rows: list[list[str]]) -> None:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    numbers = {"PID", "QUERIES", "ROWS/S", "LAG", "RESTARTS", "BATCH", "ROWS", "BATCH MS"}
    numbers |= {"IN", "OUT", "LATE", "SKIPPED", "DEAD LETTERS", "SECONDS"}
    for row in rows:
        cells = [
            f"{cell:>{widths[at]}}" if rows[0][at] in numbers else f"{cell:<{widths[at]}}"
            for at, cell in enumerate(row)
        ]
        print("  ".join(cells).rstrip())
