"""Which folder a record goes to, under Confluent's names: Default, Field, TimeBased, Daily and Hourly."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from barnabas.pipelines.connect.config import Setting
from barnabas.pipelines.connect.data.date_format import DateFormat
from barnabas.pipelines.connect.data.java_text import java_text
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.data.schema import EPOCH, Struct, from_ms, to_ms
from barnabas.pipelines.connect.errors import ConfigError, DataError

PARTITIONER_SETTINGS = (
    Setting("partitioner.class", "STRING", "DefaultPartitioner", doc="Default, Field, TimeBased, Daily or Hourly.",
            group="Partitioner"),
    Setting("partition.field.name", "LIST", [], "MEDIUM", "The fields of FieldPartitioner.", group="Partitioner"),
    Setting("partition.duration.ms", "LONG", -1, "MEDIUM", "How much time a folder holds.", group="Partitioner"),
    Setting("path.format", "STRING", "", "MEDIUM", "The folder of a time, as 'year'=YYYY/'month'=MM/'day'=dd.",
            group="Partitioner"),
    Setting("locale", "STRING", "", "LOW", "Kept for configurations that have it.", group="Partitioner"),
    Setting("timezone", "STRING", "UTC", "MEDIUM", "The zone of path.format.", group="Partitioner"),
    Setting("timestamp.extractor", "STRING", "Wallclock", "MEDIUM", "Wallclock, Record or RecordField.",
            group="Partitioner"),
    Setting("timestamp.field", "STRING", "timestamp", "MEDIUM", "The field of RecordField.", group="Partitioner"),
)  # fmt: skip
DAY_PATH = "'year'=YYYY/'month'=MM/'day'=dd"
FIXED = {"daily": (86_400_000, DAY_PATH), "hourly": (3_600_000, DAY_PATH + "/'hour'=HH")}


class Partitioner:
    """`folder` gives the path between the topic's and the file's name."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def folder(self, record: Record) -> str:
        place = record.original
        return f"partition={record.partition if place is None else place[1]}"

    def column_folder(self, partition: int) -> str | None:
        """The folder of all records of a partition; None if it depends on the record."""
        return f"partition={partition}" if type(self) is Partitioner else None

    def time_ms(self, record: Record) -> int:
        """The time that rotate.interval.ms counts."""
        return now_ms() if record.timestamp is None else record.timestamp


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class FieldPartitioner(Partitioner):
    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._names = values["partition.field.name"]
        if not self._names:
            raise ConfigError("is needed by FieldPartitioner", "partition.field.name", "")

    def folder(self, record: Record) -> str:
        return "/".join(f"{name}={safe(java_text(field_of(record.value, name)))}" for name in self._names)


class TimePartitioner(Partitioner):
    def __init__(self, values: Mapping[str, Any], kind: str) -> None:
        super().__init__(values)
        duration, path = FIXED.get(kind, (values["partition.duration.ms"], values["path.format"]))
        if duration <= 0:
            raise ConfigError("must be positive", "partition.duration.ms", duration)
        if not path:
            raise ConfigError("is needed by TimeBasedPartitioner", "path.format", "")
        try:
            # A year is what Joda's YYYY means; Java's would be that of the week.
            self._format = DateFormat(path.replace("Y", "y") if "'" not in path else _joda(path))
        except ValueError as error:
            raise ConfigError(str(error), "path.format", path) from None
        try:
            self._zone = ZoneInfo(values["timezone"] or "UTC")
        except (ZoneInfoNotFoundError, ValueError):
            raise ConfigError("is no time zone", "timezone", values["timezone"]) from None
        self._duration = timedelta(milliseconds=duration)
        self._extractor = values["timestamp.extractor"].rpartition(".")[2].lower()
        if self._extractor not in ("wallclock", "record", "recordfield"):
            raise ConfigError("is none of Wallclock, Record, RecordField", "timestamp.extractor", self._extractor)
        self._known: dict[int, str] = {}

    def folder(self, record: Record) -> str:
        """Times are rounded down to the duration in the zone, so that days begin at its midnight."""
        at = self.time_ms(record)
        minute = at // 60_000  # no folder is shorter, and time zones have whole minutes
        if self._duration.total_seconds() % 60 == 0 and minute in self._known:
            return self._known[minute]
        local = from_ms(at).astimezone(self._zone)
        plain = local.replace(tzinfo=None) - EPOCH.replace(tzinfo=None)
        floor = EPOCH.replace(tzinfo=None) + (plain // self._duration) * self._duration
        if len(self._known) > 10_000:
            self._known.clear()
        found = self._known[minute] = self._format.format(floor)
        return found

    def time_ms(self, record: Record) -> int:
        if self._extractor == "wallclock":
            return now_ms()
        if self._extractor == "record":
            if record.timestamp is None:
                raise DataError("a record has no timestamp for the extractor Record")
            return record.timestamp
        return time_of(field_of(record.value, self.values["timestamp.field"]))


def _joda(path: str) -> str:
    parts = path.split("'")
    return "'".join(part.replace("Y", "y") if number % 2 == 0 else part for number, part in enumerate(parts))


def time_of(value: Any) -> int:
    if isinstance(value, bool) or value is None:
        raise DataError(f"{value} is no time")
    if isinstance(value, int):
        return value
    if isinstance(value, datetime):
        return to_ms(value)
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            raise DataError(f"{value} is no time of ISO 8601") from None
        return to_ms(found if found.tzinfo is not None else found.replace(tzinfo=EPOCH.tzinfo))
    raise DataError(f"{value} is no time")


def field_of(value: Any, path: str) -> Any:
    """A field, or one within, by names with dots between them."""
    found = value
    for name in [path] if _has(value, path) else path.split("."):
        if not _has(found, name):
            raise DataError(f"a record has no field {path} that decides where it is written")
        found = found.get(name)
    return found


def _has(value: Any, name: str) -> bool:
    return name in value.schema.by_name if isinstance(value, Struct) else isinstance(value, dict) and name in value


def safe(text: str) -> str:
    """A value cannot lead out of its folder."""
    made = text.replace("/", "_").replace("\\", "_").replace("\0", "_")
    return made if made.strip(".") else made.replace(".", "_") or "_"


def make_partitioner(values: Mapping[str, Any]) -> Partitioner:
    name = values["partitioner.class"]
    kind = name.rpartition(".")[2].lower().removesuffix("partitioner")
    if kind == "default":
        return Partitioner(values)
    if kind == "field":
        return FieldPartitioner(values)
    if kind in ("timebased", *FIXED):
        return TimePartitioner(values, kind)
    raise ConfigError("is none of Default, Field, TimeBased, Daily, Hourly", "partitioner.class", name)
