"""The kit that checks connectors: it passes those that keep their promises, and tells what others do not."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipelines.connect.config import Definition, Setting
from barnabas.pipelines.connect.connector import BadRecords, SinkConnector, SourceConnector, offset_key
from barnabas.pipelines.connect.connectors.files import FileStreamSink, FileStreamSource
from barnabas.pipelines.connect.connectors.storage.sink import FilesSink
from barnabas.pipelines.connect.connectors.storage.spool import SpoolSource
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.errors import DataError
from barnabas.testing.connectors import check_sink, check_source


class Counter(SourceConnector):
    definition = Definition([Setting("topic", doc="Where to."), Setting("until", "LONG", 10)])

    def poll(self) -> list[Record]:
        place = {"counter": "one"}
        at = (self.offset(place) or {}).get("at", 0)
        if at >= self.values["until"]:
            return []
        self.offsets[offset_key(place)] = {"at": at + 1}
        return [Record(self.values["topic"], at, source_partition=place, source_offset={"at": at + 1})]


class Forgetful(Counter):
    """Its offset is that of the record itself, so the last record comes again."""

    def poll(self) -> list[Record]:
        return [each.but(source_offset={"at": each.value}) for each in super().poll()]


class Nameless(Counter):
    def poll(self) -> list[Record]:
        return [each.but(source_partition=None) for each in super().poll()]


class Files(SinkConnector):
    """A file for each offset, so that doing it again changes nothing."""

    definition = Definition([Setting("directory")])

    def put(self, records: Sequence[Record]) -> None:
        for each in records:
            if not isinstance(each.value, str):
                raise BadRecords([(each, DataError("no text"))])
            (Path(self.values["directory"]) / f"{each.offset:05}").write_text(each.value)


class Lossy(Files):
    def put(self, records: Sequence[Record]) -> None:
        super().put(records[:1])


class Silent(Files):
    def put(self, records: Sequence[Record]) -> None:
        super().put([each for each in records if isinstance(each.value, str)])


def texts(directory: Path) -> list[str]:
    return [path.read_text() for path in sorted(directory.iterdir())]


def test_a_source_that_keeps_its_promise_passes() -> None:
    assert [each.value for each in check_source(Counter, {"topic": "t", "until": "5"}, records=5)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("broken", "text"), [(Forgetful, "other records come than before"), (Nameless, "has no source_partition")]
)
def test_a_source_that_does_not_is_told(broken: type[SourceConnector], text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check_source(broken, {"topic": "t", "until": "5"}, records=5)


def test_our_own_sources_pass(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id\n" + "".join(f"{number}\n" for number in range(7)))
    check_source(FileStreamSource, {"file": str(path), "topic": "t"}, records=8)
    spool = {"connector.class": "SpoolDirCsvSource", "input.path": str(tmp_path), "cleanup.policy": "NONE",
             "topic": "t"}  # fmt: skip
    check_source(SpoolSource, spool, records=7)


def test_sinks(tmp_path: Path) -> None:
    settings = {"directory": str(tmp_path)}
    check_sink(Files, settings, ["a", "b"], read=lambda: texts(tmp_path), once=True, bad=5)
    with pytest.raises(AssertionError, match="after a turn the target has"):
        check_sink(Lossy, settings, ["c", "d"], read=lambda: texts(tmp_path), once=True)
    with pytest.raises(AssertionError, match="takes the bad record without a word"):
        check_sink(Silent, settings, ["a", "b"], read=lambda: texts(tmp_path), once=True, bad=5)


def test_our_own_sinks_are_what_the_documents_say(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"

    def lines() -> list[str]:
        return out.read_text().splitlines()

    check_sink(FileStreamSink, {"file": str(out)}, ["a", "b"], read=lines, once=False)
    out.unlink()
    with pytest.raises(AssertionError, match="not exactly once"):
        check_sink(FileStreamSink, {"file": str(out)}, ["a", "b"], read=lines, once=True)

    def stored() -> list[Any]:
        found = sorted(tmp_path.rglob("topics/checked/**/*.txt"))
        return [line for path in found for line in path.read_text().splitlines()]

    files = {"directory": str(tmp_path), "format.class": "StringFormat", "flush.size": "2"}
    check_sink(FilesSink, files, ["a", "b", "c", "d"], read=stored, once=True)


def test_a_connector_is_found_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from barnabas.pipelines.connect import plugins

    (tmp_path / "weather_connector.py").write_text("class Weather:\n    pass\n")
    info = tmp_path / "weather_connector-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weather-connector\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[barnabas.connect]\nsource.Weather = weather_connector:Weather\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    plugins.plugins.cache_clear()
    try:
        found = plugins.need("Weather", "source", setting="connector.class")
        assert (found.name, found.version, found.load().__name__) == ("Weather", "1.2", "Weather")
    finally:
        plugins.plugins.cache_clear()
