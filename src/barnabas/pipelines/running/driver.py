"""The process that runs a pipeline's file: `python -m barnabas.pipelines.running.driver LAUNCH`, a child of the
supervisor.

It runs the file as `__main__` and watches its queries beside it, on a thread of its own. Spark's processes start
shortly after the file, or when it asks for them: many mistakes are found before (pending.py). Every second the driver
reports to the supervisor, one JSON object a line. A line on its stdin, or its end, asks it to stop: the
sources give no new records from then on, queries end where they come to rest, and the file goes on behind whatever
waited for them.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import shutil
import signal
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.running import failures, readers
from barnabas.pipelines.running.failures import Failure
from barnabas.pipelines.running.launch import Launch
from barnabas.pipelines.running.pending import PendingSession
from barnabas.pipelines.running.queries import Queries, Watched
from barnabas.pipelines.spark import patience
from barnabas.pipelines.spark.session import StartingSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.client.errors import ClientError

HEAD_START_S = 0.15  # of the file before Spark: what is wrong in its first lines is found by then
WAIT_S = 1.0  # until a topic or a broker that was not there is looked for again
REPORT_S = 1.0
FIRST_LOOK_S = 0.1  # until there is a first result
REST_LOOK_S = 0.05
FILE_ENDS_S = 3.0  # how long the file may go on when its queries have ended, before it is interrupted
FILE_BREAKS_S = 5.0

FINISHED, FAILED = 0, 1


class Driver:
    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._began_at = time.monotonic()
        self._reports = os.fdopen(launch.report_descriptor, "w", buffering=1)
        self._queries = Queries()
        self._stop_asked = threading.Event()
        self._file_ended = threading.Event()
        self._watching_ended = threading.Event()
        self._failure: Failure | None = None
        self._exit_code = FINISHED
        self._main = threading.main_thread().ident or 0
        self._starting: StartingSession | None = None
        self._starting_lock = threading.Lock()
        self._waits_for = ""
        self._brokers: list[str] = []

    def run(self) -> int:
        control = os.dup(0)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        threading.Thread(target=self._listen, args=(control,), daemon=True).start()
        try:
            compile(Path(self._launch.app).read_bytes(), self._launch.app, "exec")
        except Exception as error:
            self._fail(failures.of_file(self._launch.app, error))
            return FAILED
        session = PendingSession(self._session)
        later = threading.Timer(HEAD_START_S, self._begin_beside)
        later.daemon = True
        if self._launch.patient:
            patience.wait = self._wait_for
        with self._queries.registered(), session.standing_in(), readers.late(self._reads_from):
            threading.Thread(target=self._watch, daemon=True).start()
            later.start()
            self._run_file()
        later.cancel()
        self._file_ended.set()
        while not self._watching_ended.wait(REPORT_S):
            pass
        with contextlib.suppress(Exception):
            if session.made is not None:
                session.made.stop()
            elif self._starting is not None:
                self._starting.abandon()
        return self._exit_code if self._failure is None else self._exit_code or FAILED

    def report(self, **told: Any) -> None:
        with contextlib.suppress(OSError):  # the supervisor is gone, and stdin's end tells us so
            self._reports.write(json.dumps(told) + "\n")

    def _session(self) -> SparkSession:
        try:
            spark = self._begin_session().wait()
            spark.conf.set("spark.sql.streaming.checkpointLocation", self._launch.checkpoints)
        except Exception as error:
            failure = failures.of_file(self._launch.app, error)
            self._fail(Failure(failure.sentence, failure.final and not self._launch.resumed, detail=failure.detail))
            raise
        return spark

    def _begin_beside(self) -> None:
        with contextlib.suppress(Exception):  # the file gets it when it asks for the session
            self._begin_session()

    def _begin_session(self) -> StartingSession:
        from barnabas.pipelines.running.settings import session_settings

        with self._starting_lock:
            if self._starting is None:
                launch = self._launch
                self._starting = StartingSession(launch.name, master=launch.master, conf=session_settings(launch))
            return self._starting

    def _reads_from(self, servers: str) -> None:
        if servers not in self._brokers:
            self._brokers.append(servers)
            self.report(brokers=" and ".join(self._brokers))

    def _wait_for(self, missing: ClientError) -> None:
        """A topic or a broker that is not there, told once."""
        if failures.of_file(self._launch.app, missing).final:
            raise missing
        if str(missing) != self._waits_for:
            self._waits_for = str(missing)
            self.report(waits_for=self._waits_for)
        if self._stop_asked.wait(WAIT_S):
            raise KeyboardInterrupt

    def _run_file(self) -> None:
        app = self._launch.app
        sys.argv = [app, *self._launch.arguments]
        sys.path.insert(0, str(Path(app).parent))
        try:
            runpy.run_path(app, run_name="__main__")
        except SystemExit as ended:
            self._exited(ended.code)
        except KeyboardInterrupt:
            pass
        except BaseException as error:
            self._file_failed(error)

    def _exited(self, code: object) -> None:
        if code is None or code == 0 or self._stop_asked.is_set():
            return
        self._exit_code = code if isinstance(code, int) else FAILED
        said = f"{self._launch.app} ended with exit code {code}" if isinstance(code, int) else str(code)
        self._fail(Failure(said, final=True))

    def _file_failed(self, error: BaseException) -> None:
        """An error of a query that the file waited for is the query's."""
        if self._stop_asked.is_set():
            return
        broken = self._broken_query() if self._queries.watched else None
        self._fail(broken or failures.of_file(self._launch.app, error, resumed=self._launch.resumed))

    def _fail(self, failure: Failure) -> None:
        if self._failure is not None:
            return
        if failure.foreign_checkpoint:
            anew = f"`barnabas pipeline reset {self._launch.name}` deletes it and begins anew"
            failure = replace(failure, sentence=f"{failure.sentence}; {anew}")
        self._failure = failure
        self.report(failure=asdict(failure))

    def _listen(self, control: int) -> None:
        with contextlib.suppress(OSError):
            os.read(control, 64)
        with contextlib.suppress(OSError):
            Path(self._launch.drain_file).touch()
        self._stop_asked.set()

    # The thread that watches.

    def _watch(self) -> None:
        try:
            self._watch_queries()
        except Exception as error:
            if not self._stop_asked.is_set():
                self._fail(Failure(f"Spark's JVM went away ({type(error).__name__})", False, detail=str(error)))
        finally:
            self._end_file()
            self._watching_ended.set()

    def _watch_queries(self) -> None:
        first_result = False
        while True:
            told = [each.look() for each in self._queries.watched]
            if told:
                if not first_result and any(each.has_result for each in self._queries.watched):
                    first_result = True
                    self.report(first_result_ms=self._elapsed_ms())
                self.report(queries=[asdict(each) for each in told])
            if broken := self._broken_query():
                self._fail(broken)
            if self._failure is not None or self._stop_asked.is_set():
                self._stop_queries()
                self.report(queries=[asdict(each.look()) for each in self._queries.watched])
                return
            if self._file_ended.is_set() and not any(each.active for each in told):
                if not told:
                    self._fail(Failure(f"{self._launch.app} started no streaming query", final=True))
                return
            self._stop_asked.wait(REPORT_S if first_result else FIRST_LOOK_S)

    def _broken_query(self) -> Failure | None:
        for each in self._queries.watched:
            if not each.query.isActive and (error := each.query.exception()) is not None:
                return failures.of_query(each.name, str(error))
        return None

    def _stop_queries(self) -> None:
        """Where each comes to rest; one that does not in time is broken off, which ends its transactions too."""
        Path(self._launch.drain_file).touch()
        deadline = time.monotonic() + self._launch.stop_timeout_s
        going = [each for each in self._queries.watched if each.query.isActive]
        while going:
            late = time.monotonic() > deadline
            going = [each for each in going if not _stopped(each, late)]
            if going:
                time.sleep(REST_LOOK_S)

    def _end_file(self) -> None:
        """The file has nothing to wait for any more; if it does not see that, it is interrupted as by Ctrl-C."""
        if self._file_ended.wait(FILE_ENDS_S):
            return
        signal.pthread_kill(self._main, signal.SIGINT)
        if not self._file_ended.wait(FILE_BREAKS_S):
            self._reports.close()
            os._exit(self._exit_code if self._failure is None else FAILED)

    def _elapsed_ms(self) -> int:
        return round((time.monotonic() - self._began_at) * 1000)


def _stopped(watched: Watched, late: bool) -> bool:
    if not watched.query.isActive:
        return True
    if not late and not watched.is_at_rest():
        return False
    with contextlib.suppress(Exception):  # its own error is told elsewhere
        watched.query.stop()
    return True


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: None)  # the supervisor asks on stdin
    launch = Launch.parse(sys.argv[1])
    code = Driver(launch).run()
    sys.stdout.flush()
    if launch.scratch:
        shutil.rmtree(launch.scratch, ignore_errors=True)
    os._exit(code)  # no thread of the file holds up the end


if __name__ == "__main__":
    main()
