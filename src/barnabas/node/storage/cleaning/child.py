"""The cleaner's process: `python -m barnabas.node.storage.cleaning.child <pid of the node>`.

It takes one job at a time as a line on its standard input and answers on its standard output: a line for every group
of segments that has become one, and a last one. It writes `.cleaned` files only; bringing them in is the node's part.
It ends with its input, and with the node.
"""

from __future__ import annotations

import gc
import os
import sys
import time

from barnabas.node.storage.cleaning.job import Failed, Finished, Job, Message, encode_message
from barnabas.node.storage.cleaning.records import Uncleanable
from barnabas.node.storage.cleaning.rewrite import Cleaning
from barnabas.node.storage.recovery.recovery import die_with_parent
from barnabas.wire.errors import KafkaError

NICENESS = 10  # who serves clients goes first; a tenth of a core is still 50 MB/s


class Throttle:
    """Bytes read and written, at most so many per second on average; it sleeps off what is too much."""

    def __init__(self, bytes_per_second: float, step_s: float = 0.05) -> None:
        self._rate = bytes_per_second
        self._step_s = step_s
        self._began = time.monotonic()
        self._bytes = 0

    def __call__(self, size: int) -> None:
        self._bytes += size
        ahead_s = self._bytes / self._rate - (time.monotonic() - self._began)
        if ahead_s > self._step_s:
            time.sleep(ahead_s)


def unthrottled(size: int) -> None:
    return None


def clean(job: Job) -> Finished:
    """Enter the log's directory, if it is still the same one, and clean what is in it."""
    fd = os.open(job.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_ino != job.inode:
            raise FileNotFoundError(f"{job.directory} is another directory now")
        os.fchdir(fd)
    finally:
        os.close(fd)
    slow = job.io_max_bytes_per_second < sys.float_info.max
    throttle = Throttle(job.io_max_bytes_per_second) if slow else unthrottled
    return Cleaning(job, tell, throttle).run()


def tell(message: Message) -> None:
    sys.stdout.write(encode_message(message))
    sys.stdout.flush()


def answer(job: Job) -> Message:
    try:
        return clean(job)
    except OSError as error:
        return Failed(reason=str(error), errno=error.errno or -1)
    except (Uncleanable, KafkaError) as error:
        return Failed(reason=str(error))
    finally:
        os.chdir("/")


def stand_back() -> None:
    """Whoever wants the processor goes first.

    Where Linux shares it out between sessions before it looks at who is nice within one, this one is a session of its
    own; and coming back from the disk it pushes nobody aside.
    """
    os.nice(NICENESS)
    if hasattr(os, "SCHED_BATCH"):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        os.setsid()
        with open("/proc/self/autogroup", "w") as session:
            session.write(str(NICENESS))
    except OSError:
        pass


def main() -> None:
    die_with_parent(int(sys.argv[1]))
    stand_back()
    gc.disable()  # nothing here refers to itself, and there are millions of tuples to look through
    for line in sys.stdin:
        tell(answer(Job.decode(line)))


if __name__ == "__main__":
    main()
