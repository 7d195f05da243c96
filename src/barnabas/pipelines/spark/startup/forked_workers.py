"""The fork server itself: `python -m barnabas.pipelines.spark.startup.forked_workers DESCRIPTOR DIRECTORY`.

It ends with its stdin, and removes the directory.

What the user's functions print goes where the program prints to. Spark would put it among the JVM's log lines.

Nothing here may start a thread before it forks; the one of Arrow's allocator knows how to be forked.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import marshal
import os
import runpy
import select
import shutil
import signal
import socket
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

# What workers import, heaviest first. What is missing here is imported by who needs it.
MODULES = (
    "pandas",
    "pyarrow",
    "cramjam",
    "crc32c",
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark_barnabas",
    "barnabas.pipelines.spark.batch_reader",
    "barnabas.pipelines.spark.stream_reader",
    "barnabas.pipelines.spark.sink.writers",
    "barnabas.pipelines.spark.sink.turn",
    "barnabas.pipelines.streams.source",
    "barnabas.pipelines.streams.stage",
    # What a task imports on its way, by functions.
    "aiokafka.record.default_records",
    "encodings.idna",
    "barnabas.client.list_offsets",
    "barnabas.wire.decoder",
    "barnabas.wire.encoder",
    "barnabas.wire.messages.add_partitions_to_txn",
    "barnabas.wire.messages.end_txn",
    "barnabas.wire.messages.find_coordinator",
    "barnabas.wire.messages.list_offsets",
    "barnabas.wire.messages.metadata",
)
DESCRIPTORS = 3
NOBODY_THERE = "[CANNOT_OPEN_SOCKET]"  # the query that asked for the process was stopped meanwhile
HANG_UPS = (BrokenPipeError, ConnectionResetError)  # Spark ended the query while its process answered
DAEMON = "pyspark.daemon"  # forks the workers that run the user's functions


def main(descriptor: int, directory: str) -> None:
    prints = os.dup(1)
    listening = socket.socket(fileno=descriptor)
    listening.set_inheritable(False)
    for name in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    os.register_at_fork(after_in_child=_other_randomness)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.collect()
    gc.freeze()  # the collector of a worker does not touch, and so not copy, what all share
    poller = select.poll()
    poller.register(0, select.POLLIN)
    poller.register(listening, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poller.poll()}
        if 0 in ready:  # the driver's end
            shutil.rmtree(directory, ignore_errors=True)
            return
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError, EOFError, ValueError):
            work = _fork(connection, listening)
            if work is not None:
                _become(*work, prints)


def _fork(connection: socket.socket, listening: socket.socket) -> tuple[list[str], dict[str, str]] | None:
    """In the child, what it is to do."""
    words, environment, directory, descriptors = _receive(connection)
    worker = os.fork()
    if worker:
        for descriptor in descriptors:
            os.close(descriptor)
        connection.sendall(str(worker).encode())
        return None
    listening.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(directory)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    return words, environment


def _receive(connection: socket.socket) -> tuple[list[str], dict[str, str], str, list[int]]:
    connection.settimeout(10)
    descriptors = array.array("i")
    head, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(DESCRIPTORS * descriptors.itemsize))
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    content = bytearray()
    while len(content) < int.from_bytes(head, "big"):
        more = connection.recv(65536)
        if not more:
            raise EOFError
        content += more
    words, environment, directory = marshal.loads(bytes(content))
    if len(descriptors) != DESCRIPTORS:
        raise EOFError
    return words, environment, directory, list(descriptors)


def _become(words: list[str], environment: dict[str, str], prints: int) -> None:
    """`python -m module ...`, with this environment."""
    code = 1
    try:
        os.environ.clear()
        os.environ.update(environment)
        sys.path[0] = str(Path.cwd())
        given = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
        sys.path[1:1] = [path for path in given if path not in sys.path]
        sys.argv = words[1:]
        warnings.simplefilter("ignore", RuntimeWarning)  # that the module has been imported already
        sys.stdin, sys.stdout, sys.stderr = _streams()
        if words[1] == DAEMON:
            os.register_at_fork(after_in_child=lambda: _print_to(prints))
            keep_quiet_of_hang_ups()
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException as error:
        if NOBODY_THERE not in str(error) and not isinstance(error, HANG_UPS):
            sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)


def _streams() -> tuple[Any, Any, Any]:
    return (
        os.fdopen(0, "r", closefd=False),
        os.fdopen(1, "w", closefd=False),
        os.fdopen(2, "w", buffering=1, closefd=False, errors="backslashreplace"),
    )


def _print_to(prints: int) -> None:
    """In a worker: its daemon has told Spark its port on descriptor 1, and nobody reads more from there."""
    os.dup2(prints, 1)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)


def keep_quiet_of_hang_ups() -> None:
    """Spark hangs up on the workers of a query that is stopped, and each would print a traceback of its last answer."""
    print_exc = traceback.print_exc

    def print_others(*given: Any, **named: Any) -> None:
        if not isinstance(sys.exc_info()[1], HANG_UPS):
            print_exc(*given, **named)

    traceback.print_exc = print_others


def _other_randomness() -> None:
    """Python's own does so by itself."""
    numbers = sys.modules.get("numpy.random")
    if numbers is not None:
        numbers.seed()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
