from __future__ import annotations

from typing import Any

import pytest

from barnabas.pipelines.connect.connectors.changes.envelope import SOURCE_HEAD, ChangeColumn, ChangeTable
from barnabas.pipelines.connect.data.record import Header, Record
from barnabas.pipelines.connect.data.schema import INT64, OPTIONAL_STRING, STRING, Struct, struct
from barnabas.pipelines.connect.errors import ConfigError
from barnabas.pipelines.connect.plugins import make_transformation

SOURCE = struct([*SOURCE_HEAD, ("table", STRING)], name="Source")
COLUMNS = [ChangeColumn("id", INT64, int), ChangeColumn("name", OPTIONAL_STRING, str)]
TABLE = ChangeTable("p.public.t", COLUMNS, ["id"], SOURCE)
FROM = Struct.unchecked(SOURCE, {"ts_ms": 5, "table": "t", "snapshot": "false"})


def row(number: int, name: str | None) -> Struct:
    return Struct.unchecked(TABLE.value, {"id": number, "name": name})


def changes(op: str, before: Struct | None, after: Struct | None) -> list[Record]:
    return TABLE.records(op, before, after, FROM, None)


def unwrapped(records: list[Record], **settings: str) -> list[Any]:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    made = make_transformation("io.debezium.transforms.ExtractNewRecordState", given)
    found = [made.apply(each) for each in records]
    return [None if each.value is None else dict(each.value.values) for each in found if each is not None]


CREATED = changes("c", None, row(1, "Anna"))
DELETED = changes("d", row(1, "Anna"), None)


@pytest.mark.parametrize(
    ("settings", "created", "deleted"),
    [
        ({}, {}, [None]),
        ({"delete_tombstone_handling_mode": "drop"}, {}, []),
        ({"delete_tombstone_handling_mode": "delete-to-tombstone"}, {}, [None]),
        ({"delete_tombstone_handling_mode": "rewrite"}, {"__deleted": "false"}, ["row"]),
        ({"delete_tombstone_handling_mode": "rewrite-with-tombstone"}, {"__deleted": "false"}, ["row", None]),
        ({"drop_tombstones": "false"}, {}, [None]),
        ({"delete_handling_mode": "rewrite"}, {"__deleted": "false"}, ["row"]),
        ({"delete_handling_mode": "none", "drop_tombstones": "false"}, {}, [None, None]),
    ],
)
def test_rows_and_what_becomes_of_deletions(
    settings: dict[str, str], created: dict[str, str], deleted: list[Any]
) -> None:
    assert unwrapped(CREATED, **settings) == [{"id": 1, "name": "Anna"} | created]
    gone = {"id": 1, "name": "Anna", "__deleted": "true"}
    assert unwrapped(DELETED, **settings) == [gone if each == "row" else each for each in deleted]


def test_fields_and_headers_of_the_event() -> None:
    given = {"add.fields": "op,table:from,source.ts_ms,total_order", "add.headers": "op"}
    made = make_transformation("ExtractNewRecordState", given)
    (record,) = [made.apply(each) for each in CREATED]
    assert record is not None
    assert record.value.values == {
        "id": 1, "name": "Anna", "__op": "c", "__from": "t", "__source_ts_ms": 5, "__total_order": None,
    }  # fmt: skip
    record.value.validate()
    assert record.headers == (Header("__op", "c", OPTIONAL_STRING),)
    assert record.value_schema is record.value.schema


def test_what_is_no_change_goes_through_and_a_truncated_table_does_not() -> None:
    plain = Record("t", {"op": "c"}, None)
    assert unwrapped(changes("r", None, row(1, None))) == [{"id": 1, "name": None}]
    assert make_transformation("ExtractNewRecordState", {}).apply(plain) is plain
    table = ChangeTable("p.public.t", COLUMNS, ["id"], SOURCE, skipped=frozenset())
    assert unwrapped(table.records("t", None, None, FROM, None)) == []


def test_wrong_fields_are_told() -> None:
    with pytest.raises(ConfigError, match="must be fields of the event"):
        make_transformation("ExtractNewRecordState", {"add.fields": "before.id"})
