"""Settings that the connectors for change data capture share, under Debezium's names, older ones too."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.pipelines.connect.config import Setting, at_least, java_regex, one_of
from barnabas.pipelines.connect.errors import ConfigError

OLDER_NAMES = {
    "database.server.name": "topic.prefix",
    "table.whitelist": "table.include.list",
    "table.blacklist": "table.exclude.list",
    "schema.whitelist": "schema.include.list",
    "schema.blacklist": "schema.exclude.list",
    "database.whitelist": "database.include.list",
    "database.blacklist": "database.exclude.list",
    "column.whitelist": "column.include.list",
    "column.blacklist": "column.exclude.list",
}
SNAPSHOT_MODES = ("initial", "always", "initial_only", "no_data", "never", "when_needed", "schema_only", "exported")

SHARED = [
    Setting("topic.prefix", "STRING", "", doc="What topics' names begin with.", group="Connector"),
    Setting("database.hostname", doc="Where the server is.", group="Database"),
    Setting("database.user", "STRING", None, doc="Who asks; the user needs the right to replicate.", group="Database"),
    Setting("database.password", "PASSWORD", None, doc="Of that user.", group="Database"),
    Setting("table.include.list", "LIST", [], "HIGH", "Regular expressions of tables to capture.", group="Filters"),
    Setting("table.exclude.list", "LIST", [], "MEDIUM", "Regular expressions of tables to leave.", group="Filters"),
    Setting("column.include.list", "LIST", [], "MEDIUM", "Regular expressions of columns to keep.", group="Filters"),
    Setting("column.exclude.list", "LIST", [], "MEDIUM", "Regular expressions of columns to leave.", group="Filters"),
    Setting("message.key.columns", "STRING", "", "MEDIUM", "table:column,column;... instead of primary keys.",
            group="Events"),
    Setting("snapshot.mode", "STRING", "initial", "MEDIUM", "Whether rows that are there are read first.",
            one_of(*SNAPSHOT_MODES, ignore_case=True), "Snapshot"),
    Setting("snapshot.include.collection.list", "LIST", [], "MEDIUM", "Tables to read first; empty is all.",
            group="Snapshot"),
    Setting("tombstones.on.delete", "BOOLEAN", True, "MEDIUM", "Whether a tombstone follows a deletion.",
            group="Events"),
    Setting("skipped.operations", "LIST", ["t"], "LOW", "c, u, d and t that are left out; none for none.",
            group="Events"),
    Setting("provide.transaction.metadata", "BOOLEAN", False, "LOW", "Whether a topic tells of transactions.",
            group="Events"),
    Setting("topic.transaction", "STRING", "transaction", "LOW", "The last part of that topic.", group="Events"),
    Setting("decimal.handling.mode", "STRING", "precise", "MEDIUM", "precise, string or double.",
            one_of("precise", "string", "double", ignore_case=True), "Types"),
    Setting("binary.handling.mode", "STRING", "bytes", "LOW", "bytes, base64, base64-url-safe or hex.",
            one_of("bytes", "base64", "base64-url-safe", "hex", ignore_case=True), "Types"),
    Setting("unavailable.value.placeholder", "STRING", "__debezium_unavailable_value", "MEDIUM",
            "Stands for values that the database did not send.", group="Types"),
    Setting("heartbeat.interval.ms", "INT", 0, "LOW", "How often a heartbeat is sent; 0 is never.", at_least(0),
            "Heartbeat"),
    Setting("heartbeat.topics.prefix", "STRING", "__debezium-heartbeat", "LOW", "Of the heartbeat's topic.",
            group="Heartbeat"),
    Setting("topic.heartbeat.prefix", "STRING", "", "LOW", "The newer name of it.", group="Heartbeat"),
    Setting("heartbeat.action.query", "STRING", "", "LOW", "A statement that is run with each heartbeat.",
            group="Heartbeat"),
    Setting("signal.data.collection", "STRING", "", "MEDIUM", "The table whose new rows are signals.",
            group="Signals"),
    Setting("poll.interval.ms", "INT", 500, "MEDIUM", "How long to wait after an empty read.", at_least(1),
            "Connector"),
    Setting("max.batch.size", "INT", 2048, "MEDIUM", "Kept for configurations that have it.", group="Connector"),
]  # fmt: skip


def with_older_names(given: Mapping[str, str]) -> dict[str, str]:
    renamed = dict(given)
    for old, new in OLDER_NAMES.items():
        if old in renamed:
            renamed.setdefault(new, renamed[old])
    return renamed


class Patterns:
    """A list of Java's regular expressions, anchored, without regard to case."""

    def __init__(self, name: str, patterns: Sequence[str]) -> None:
        try:
            self._found = [re.compile(java_regex(each), re.IGNORECASE) for each in patterns if each]
        except re.error as error:
            raise ConfigError(f"is no regular expression: {error}", name, ",".join(patterns)) from None

    def __bool__(self) -> bool:
        return bool(self._found)

    def match(self, *names: str) -> bool:
        return any(each.fullmatch(name) for each in self._found for name in names)


class Filters:
    """Which tables and columns are captured. A space is a schema of PostgreSQL, a database of MariaDB."""

    def __init__(self, values: Mapping[str, Any], space: str) -> None:
        def patterns(name: str) -> Patterns:
            return Patterns(name, values.get(name, []))

        self._spaces = patterns(f"{space}.include.list"), patterns(f"{space}.exclude.list")
        self._tables = patterns("table.include.list"), patterns("table.exclude.list")
        self._columns = patterns("column.include.list"), patterns("column.exclude.list")
        self._snapshot = patterns("snapshot.include.collection.list")
        self.signals = values["signal.data.collection"]
        self._keys = key_columns(values["message.key.columns"])

    def table(self, space: str, name: str) -> bool:
        full = f"{space}.{name}"
        return self._of(self._spaces, space) and self._of(self._tables, full)

    def space(self, space: str) -> bool:
        return self._of(self._spaces, space)

    def column(self, space: str, table: str, name: str) -> bool:
        return self._of(self._columns, f"{space}.{table}.{name}")

    def snapshot(self, space: str, name: str) -> bool:
        return not self._snapshot or self._snapshot.match(f"{space}.{name}")

    def key(self, space: str, table: str) -> list[str] | None:
        return next((columns for tables, columns in self._keys if tables.match(f"{space}.{table}", table)), None)

    @staticmethod
    def _of(pair: tuple[Patterns, Patterns], *names: str) -> bool:
        wanted, unwanted = pair
        return wanted.match(*names) if wanted else not unwanted.match(*names)


def key_columns(text: str) -> list[tuple[Patterns, list[str]]]:
    found = []
    for part in filter(None, (each.strip() for each in text.split(";"))):
        table, colon, columns = part.rpartition(":")
        if not colon or not columns.strip():
            raise ConfigError("must look like table:column,column;...", "message.key.columns", text)
        names = [each.strip() for each in columns.split(",")]
        found.append((Patterns("message.key.columns", [table.strip()]), names))
    return found


def skipped_operations(values: Mapping[str, Any]) -> frozenset[str]:
    found = frozenset(each.lower() for each in values["skipped.operations"]) - {"none", ""}
    if not found <= set("cudt"):
        raise ConfigError("may hold c, u, d and t, or be none", "skipped.operations", values["skipped.operations"])
    return found
