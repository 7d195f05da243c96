"""The session of a pipeline's file before Spark runs: it stands in for the real one, and becomes it when it must.

A file asks for its session first and has its mistakes behind that: a word too many, a topic that is not there. Most
are found without Spark, in less than a second. So the file gets a session whose JVM is started by the first question
that takes one. What a reader of streams is told (format, options) takes none, nor do the checks of a topology.

    session()                 a stand-in; nothing is started
    spark.readStream          readers note what they are told, and check it first (readers.py)
    topology.start(spark)     checks the topology and its topics first
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.spark import session as sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PendingSession:
    def __init__(self, start: Callable[[], SparkSession]) -> None:
        self._start = start
        self._lock = threading.RLock()
        self._made: SparkSession | None = None
        self._starting = False

    @property
    def made(self) -> SparkSession | None:
        """The real one, if anybody has asked for it."""
        return self._made

    def get(self) -> SparkSession:
        with self._lock:
            if self._made is None:
                from pyspark import SparkContext

                SparkContext._active_spark_context = None  # the stand-in
                self._starting = True
                self._made = self._start()
            return self._made

    @contextmanager
    def standing_in(self) -> Iterator[None]:
        """While this lasts, the file finds the stand-in wherever it looks for a session."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        stand_in = _stand_in(SparkSession, self.get, passes=("readStream",))
        builder: Any = SparkSession.Builder
        get_or_create = builder.getOrCreate

        def get_real(asked: Any) -> SparkSession:
            if not self._starting:
                self.get()
            found: SparkSession = get_or_create(asked)
            return found

        builder.getOrCreate = get_real
        SparkContext._active_spark_context = _stand_in(SparkContext, lambda: self.get().sparkContext)
        sessions.stand_in = lambda: stand_in if self._made is None else None
        try:
            yield
        finally:
            sessions.stand_in = None
            builder.getOrCreate = get_or_create
            if self._made is None:
                SparkContext._active_spark_context = None


def _stand_in(kind: type, get: Callable[[], Any], passes: tuple[str, ...] = ()) -> Any:
    """An object that becomes the real one in place: whoever holds it holds that one from then on."""

    class StandIn(kind):  # type: ignore[misc]
        def __init__(self) -> None:
            pass

        def __getattribute__(self, name: str) -> Any:
            if name not in ("__class__", "__dict__", *passes):
                real = get()
                object.__setattr__(self, "__dict__", real.__dict__)
                object.__setattr__(self, "__class__", kind)
            return object.__getattribute__(self, name)

    return StandIn()
