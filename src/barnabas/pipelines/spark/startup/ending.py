"""The end of a program that has started a session: what still runs is stopped, and told in a sentence.

Without this a program that only starts its queries ends at once, while the JVM prints a page about queries that lose
their session. After Ctrl-C there is one traceback, not two.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

    from pyspark.sql.streaming.query import StreamingQuery

_watching = False


def watch(*, make_archive: bool) -> None:
    """From now on, for as long as the program lasts."""
    global _watching
    if not _watching:
        _watching = True
        if make_archive:
            atexit.register(make_archive_later)
        atexit.register(end_queries)  # which is done first
    if threading.current_thread() is threading.main_thread() and not _is_interactive():
        # PySpark's asks the JVM to cancel its jobs, in the midst of another question, and fails with that.
        signal.signal(signal.SIGINT, _interrupted)


def _interrupted(number: int, frame: FrameType | None) -> None:
    """From here on py4j keeps quiet: it logs the Ctrl-C with its traceback, which Python is about to print, and
    whatever comes of closing a connection in the midst of a question."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_is_not_py4js)
    raise KeyboardInterrupt


def _is_not_py4js(record: logging.LogRecord) -> bool:
    """Some of its lines go to the root logger, without its name."""
    return Path(record.pathname).parent.name != "py4j"


def end_queries() -> None:
    with contextlib.suppress(Exception):  # the JVM is gone
        running = _running()
        if running and not _is_interactive() and not hasattr(sys, "last_value"):
            names = ", ".join(query.name or f"query {query.id}" for query in running)
            print(
                f"{names} still {'runs' if len(running) == 1 else 'run'} where the program ends, and "
                f"{'is' if len(running) == 1 else 'are'} stopped. To wait: run.await_termination() for a topology, "
                "query.awaitTermination() for a query, or start the file by `barnabas pipeline run`.",
                file=sys.stderr,
                flush=True,
            )
        for query in running:
            query.stop()


def make_archive_later() -> None:
    """For the next program, if this one had to start without."""
    from barnabas.pipelines.spark.startup.archive import MAKING, make_later

    with contextlib.suppress(Exception):
        if make_later():
            print(MAKING, file=sys.stderr, flush=True)


def _running() -> list[StreamingQuery]:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    session = SparkSession._instantiatedSession
    return [] if SparkContext._active_spark_context is None or session is None else session.streams.active


def _is_interactive() -> bool:
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)
