"""Readers of streams that note what they are told, and tell it to the JVM when a stream is loaded.

Format and options of a source are known before Spark runs, and so is what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

NOTED = ("format", "schema", "option", "options")


@contextmanager
def late(reads_from: Callable[[str], None]) -> Iterator[None]:
    """While this lasts, readers of streams note what they are told, and tell it to the JVM when it is needed."""
    from pyspark.sql.streaming.readwriter import DataStreamReader

    reader: Any = DataStreamReader
    kept = {name: getattr(reader, name) for name in ("__init__", "load", *NOTED)}

    def begin(self: Any, spark: Any) -> None:
        self._noted = [("__init__", (spark,), {})]

    def real(self: Any, name: str) -> Any:
        """Asked for what only the real one has, it becomes that."""
        noted = self.__dict__.pop("_noted", None)
        if noted is None:
            raise AttributeError(name)
        for method, given, more in noted:
            kept[method](self, *given, **more)
        return getattr(self, name)

    def noting(method: str) -> Callable[..., Any]:
        def note(self: Any, *given: Any, **more: Any) -> Any:
            if "_noted" not in self.__dict__:
                return kept[method](self, *given, **more)
            self._noted.append((method, given, more))
            return self

        return note

    def load(self: Any, path: str | None = None, format: str | None = None, schema: Any = None, **options: Any) -> Any:
        if "_noted" in self.__dict__:
            chosen, said = _told(self._noted, format, options)
            if chosen.lower() == "barnabas":
                check_source(said)
            if (servers := _servers(said)) is not None:
                reads_from(servers)
        return kept["load"](self, path, format, schema, **options)

    reader.__init__, reader.load, reader.__getattr__ = begin, load, real
    for name in NOTED:
        setattr(reader, name, noting(name))
    try:
        yield
    finally:
        del reader.__getattr__
        for name, method in kept.items():
            setattr(reader, name, method)


def _told(noted: list[Any], format: str | None, options: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Format and options, as Spark would have them."""
    from pyspark.sql.utils import to_str

    given: dict[str, Any] = {}
    chosen = ""
    for method, words, more in noted:
        if method == "format":
            chosen = (lambda source: source)(*words, **more)
        elif method == "option":
            given |= (lambda key, value: {key: value})(*words, **more)
        elif method == "options":
            given |= more
    said = {name: to_str(value) for name, value in (given | options).items()}
    return format or chosen, {name: value for name, value in said.items() if value is not None}


def _servers(options: dict[str, str]) -> str | None:
    return next((value for name, value in options.items() if name.lower() == "kafka.bootstrap.servers"), None)


def check_source(options: dict[str, str]) -> None:
    """Of a source of ours: what is wrong with its options is raised here, and topics are waited for."""
    from barnabas.pipelines.spark.options import SourceOptions
    from barnabas.pipelines.spark.patience import until_there
    from barnabas.pipelines.spark.topics import Topics

    parsed = SourceOptions.parse(options)
    parsed.for_stream()
    topics = Topics(parsed)
    until_there(topics.existing_partitions if parsed.fail_on_data_loss else topics.partitions)
