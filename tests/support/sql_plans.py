"""Random query plans: records of two streams and two tables, a statement of SQL over them, and the same question to
another engine, which computes it in batch over the same records: SQLite, within milliseconds, or Spark SQL.

A table's records are its changes, so the table of the other engine has the last of each key. A stream joined with a
table sees the table as it was at that moment: the question finds the last change before the record by its number. The
result of a stream is all its rows, that of a table the last of each key.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from barnabas.pipelines.sql.runner import Bench, CaseRecord

SOURCES = """
CREATE STREAM s (id STRING KEY, g INT, v INT, w DOUBLE) WITH (kafka_topic='s', value_format='JSON');
CREATE STREAM r (id STRING KEY, g INT, v INT, w DOUBLE) WITH (kafka_topic='r', value_format='JSON');
CREATE TABLE t (id STRING PRIMARY KEY, g INT, v INT, w DOUBLE) WITH (kafka_topic='t', value_format='JSON');
CREATE TABLE u (id STRING PRIMARY KEY, g INT, v INT, w DOUBLE) WITH (kafka_topic='u', value_format='JSON');
"""
KEYS = "abcde"
AGGREGATES = {
    "COUNT(*)": "COUNT(*)",
    "COUNT({v})": "COUNT({v})",
    "SUM({v})": "COALESCE(SUM({v}), 0)",
    "AVG({w})": "COALESCE(AVG({w}), 0.0)",
    "MIN({v})": "MIN({v})",
    "MAX({v})": "MAX({v})",
    "COUNT_DISTINCT({v})": "COUNT(DISTINCT {v})",
}
UNDONE = ("COUNT(*)", "COUNT({v})", "SUM({v})", "AVG({w})")  # of tables, whose rows go again
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Plan:
    """`sql` gives the stream or table O. `batch` gives the same columns: keys first, then values."""

    sql: str
    batch: str
    table: bool
    may_be_empty: bool = False  # groups of a table stay, with a count of 0, when their last row has gone


@dataclass
class Case:
    seed: int
    random_: random.Random = field(init=False)
    records: list[tuple[str, Row | None, str, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.random_ = random.Random(self.seed)
        self.records = self._records()

    def _records(self) -> list[tuple[str, Row | None, str, int]]:
        """(topic, value or None, key, time), in the order in which they come."""
        pick = self.random_
        found = []
        time = 0
        for _ in range(pick.randint(20, 70)):
            time += pick.choice([0, 1, 40, 300, 900])
            topic = pick.choice("srtu")
            value: Row | None = (
                pick.choice([None, 0, 1, 2]),
                pick.choice([None, *range(-6, 7)]),
                pick.choice([None, *(one / 4 for one in range(-8, 9))]),
            )
            if topic in "tu" and pick.random() < 0.2:
                value = None
            found.append((topic, value, pick.choice(KEYS), time))
        return found

    def plan(self) -> Plan:
        kinds = [self._filter, self._stream_table, self._tables, self._foreign, self._streams]
        kinds += [self._grouped, self._grouped_table, self._grouped_join, self._tables_of_tables]
        return self.random_.choice(kinds)()

    def _condition(self, *aliases: str) -> str:
        """Holds, or not, in both dialects. What is null or compared with null does not hold in either."""
        pick = self.random_
        one = pick.choice(aliases)
        simple = [
            f"{one}.v {pick.choice(['>', '<', '>=', '<=', '=', '<>'])} {pick.randint(-4, 4)}",
            f"{one}.w BETWEEN {pick.randint(-2, 0)} AND {pick.randint(0, 2)}",
            f"{one}.g IN (0, {pick.randint(1, 2)})",
            f"{one}.v IS {pick.choice(['', 'NOT '])}NULL",
            f"{one}.id LIKE '{pick.choice(['a%', '%b', '_', 'c'])}'",
            f"{one}.v + {one}.g > {pick.randint(-3, 3)}",
        ]
        first, second = pick.sample(simple, 2)
        return pick.choice([first, f"{first} AND {second}", f"({first} OR {second})"])

    def _where(self, *aliases: str) -> str:
        return f" WHERE {self._condition(*aliases)}" if self.random_.random() < 0.7 else ""

    def _values(self, *aliases: str) -> str:
        pick = self.random_
        found = []
        for number in range(pick.randint(1, 3)):
            limit = pick.randint(-3, 3)
            one, other = pick.choice(aliases), pick.choice(aliases)
            expression = pick.choice(
                [
                    f"{one}.v",
                    f"{one}.w",
                    f"{one}.v * {pick.randint(1, 5)} - {other}.g",
                    f"{one}.w + {other}.v",
                    f"COALESCE({one}.v, {other}.g, 7)",
                    f"CASE WHEN {one}.v > {limit} THEN 'high' WHEN {one}.v IS NULL THEN 'no' ELSE 'low' END",
                    f"NULLIF({one}.g, {pick.randint(0, 2)})",
                    f"ABS({one}.v)",
                ]
            )
            found.append(f"{expression} AS x{number}")
        return ", ".join(found)

    def _filter(self) -> Plan:
        if self.random_.random() < 0.3:
            select = f"SELECT t.id AS k, {self._values('t')} FROM t{self._where('t')}"
            return Plan(f"CREATE TABLE o AS {select};", select, table=True)
        select = f"SELECT s.id AS k, {self._values('s')} FROM s{self._where('s')}"
        return Plan(f"CREATE STREAM o AS {select};", select, table=False)

    def _stream_table(self) -> Plan:
        """The table as it was when the record came."""
        kind = self.random_.choice(["JOIN", "LEFT JOIN"])
        rest = f"{self._where('s', 't')}"
        select = f"SELECT s.id AS k, {self._values('s', 't')} FROM s {kind}"
        last = "SELECT s.n AS at, MAX(c.n) AS last FROM s JOIN t_changes c ON c.id = s.id AND c.n < s.n GROUP BY s.n"
        then = f"(SELECT m.at, h.* FROM ({last}) m JOIN t_changes h ON h.n = m.last WHERE h.gone = 0)"
        return Plan(
            f"CREATE STREAM o AS {select} t ON s.id = t.id{rest};", f"{select} {then} t ON t.at = s.n{rest}", False
        )

    def _tables(self) -> Plan:
        kind = self.random_.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL OUTER JOIN"])
        key = {"FULL OUTER JOIN": "ROWKEY", "RIGHT JOIN": "u.id"}.get(kind, "t.id")
        rest = f"{self._values('t', 'u')} FROM t {kind} u ON t.id = u.id{self._where('t', 'u')}"
        batch_key = "COALESCE(t.id, u.id)" if key == "ROWKEY" else key
        return Plan(f"CREATE TABLE o AS SELECT {key} AS k, {rest};", f"SELECT {batch_key} AS k, {rest}", True)

    def _foreign(self) -> Plan:
        """A table of letters by number, found by the other table's column."""
        kind = self.random_.choice(["JOIN", "LEFT JOIN"])
        on = "CASE WHEN t.g = 0 THEN 'a' WHEN t.g = 1 THEN 'b' WHEN t.g = 2 THEN 'e' END = u.id"
        rest = f"SELECT t.id AS k, {self._values('t', 'u')} FROM t {kind} u ON {on}{self._where('t', 'u')}"
        return Plan(f"CREATE TABLE o AS {rest};", rest, True)

    def _streams(self) -> Plan:
        """Any two within the time."""
        before, after = self.random_.choice([(0, 500), (400, 400), (1000, 0), (2000, 2000)])
        within = f"WITHIN ({before} MILLISECONDS, {after} MILLISECONDS) GRACE PERIOD 1 DAY"
        values, where = self._values("s", "r"), self._where("s", "r")
        sql = f"CREATE STREAM o AS SELECT s.id AS k, {values} FROM s JOIN r {within} ON s.id = r.id{where};"
        on = f"s.id = r.id AND r.time BETWEEN s.time - {before} AND s.time + {after}"
        return Plan(sql, f"SELECT s.id AS k, {values} FROM s JOIN r ON {on}{where}", False)

    def _aggregates(self, alias: str, choices: Any) -> tuple[str, str]:
        picked = self.random_.sample(list(choices), self.random_.randint(1, 3))
        columns = {"v": f"{alias}.v", "w": f"{alias}.w"}
        sql = [f"{one.format(**columns)} AS x{at}" for at, one in enumerate(picked)]
        batch = [f"{AGGREGATES[one].format(**columns)} AS x{at}" for at, one in enumerate(picked)]
        return ", ".join(sql), ", ".join(batch)

    def _having(self) -> str:
        return f" HAVING COUNT(*) > {self.random_.randint(1, 3)}" if self.random_.random() < 0.4 else ""

    def _by(self, alias: str) -> list[str]:
        return self.random_.choice([[f"{alias}.id"], [f"{alias}.g"], [f"{alias}.id", f"{alias}.g"]])

    def _not_null(self, by: list[str], where: str) -> str:
        """A row whose group is null is left out."""
        tests = " AND ".join(f"{one} IS NOT NULL" for one in by)
        return f"{where} AND {tests}" if where else f" WHERE {tests}"

    def _grouped(self) -> Plan:
        by, where, having = self._by("s"), self._where("s"), self._having()
        sql, batch = self._aggregates("s", AGGREGATES)
        keys = ", ".join(f"{one} AS k{at}" for at, one in enumerate(by))
        size = self.random_.choice([None, 700, 2000])
        advance = self.random_.choice([size, 350]) if size else None
        window = "" if size is None else f" WINDOW TUMBLING (SIZE {size} MILLISECONDS, GRACE PERIOD 1 DAY)"
        if size is not None and advance != size:
            hop = f"SIZE {size} MILLISECONDS, ADVANCE BY {advance} MILLISECONDS"
            window = f" WINDOW HOPPING ({hop}, GRACE PERIOD 1 DAY)"
        create = created(by)
        statement = f"{create} SELECT {keys}, {sql} FROM s{window}{where} GROUP BY {', '.join(by)}{having};"
        group, source, start = ", ".join(by), "s", ""
        if size is not None:
            source = (
                f"s JOIN starts ON starts.at % {advance} = 0 AND starts.at <= s.time AND s.time < starts.at + {size}"
            )
            group, start = f"{group}, starts.at", "starts.at AS window_start, "
        full = self._not_null(by, where)
        select = f"SELECT {start}{keys}, {batch} FROM {source}{full} GROUP BY {group}{having}"
        return Plan(statement, select, True)

    def _grouped_table(self) -> Plan:
        by, where, having = self._by("t"), self._where("t"), self._having()
        sql, batch = self._aggregates("t", UNDONE)
        keys = ", ".join(f"{one} AS k{at}" for at, one in enumerate(by))
        group = f" GROUP BY {', '.join(by)}{having}"
        statement = f"{created(by)} SELECT {keys}, {sql}, COUNT(*) AS n FROM t{where}{group};"
        select = f"SELECT {keys}, {batch}, COUNT(*) AS n FROM t{self._not_null(by, where)}{group}"
        return Plan(statement, select, True, may_be_empty=True)

    def _grouped_join(self) -> Plan:
        inner, alias = self._streams(), "o1"
        sql, batch = self._aggregates_of_x0()
        first = inner.sql.replace("CREATE STREAM o ", f"CREATE STREAM {alias} ", 1)
        statement = f"{first} CREATE TABLE o AS SELECT k, {sql} FROM {alias} GROUP BY k;"
        return Plan(statement, f"SELECT k, {batch} FROM ({inner.batch}) GROUP BY k", True)

    def _aggregates_of_x0(self) -> tuple[str, str]:
        return "COUNT(*) AS n, COUNT(x0) AS m", "COUNT(*) AS n, COUNT(x0) AS m"

    def _tables_of_tables(self) -> Plan:
        """What became of a filtered table or a join, counted."""
        inner = self.random_.choice([self._tables, self._foreign])()
        first = inner.sql.replace("CREATE TABLE o ", "CREATE TABLE o1 ", 1)
        expression = "CASE WHEN x0 IS NULL THEN 'none' ELSE 'some' END"
        sql = f"{first} CREATE TABLE o AS SELECT {expression} AS y, COUNT(*) AS n FROM o1 GROUP BY {expression};"
        return Plan(
            sql, f"SELECT {expression} AS y, COUNT(*) AS n FROM ({inner.batch}) GROUP BY {expression}", True, True
        )


def created(by: list[str]) -> str:
    """A key of several columns needs a format that holds them."""
    return f"CREATE TABLE o{' WITH (KEY_FORMAT=' + repr('JSON') + ')' if len(by) > 1 else ''} AS"


def streamed(case: Case, plan: Plan) -> list[Row]:
    """The rows of O after all records, one at a time: of a table the last of each key."""
    bench = Bench()
    try:
        bench.execute(SOURCES + plan.sql)
        for topic, value, key, time in case.records:
            given = None if value is None else dict(zip("GVW", value, strict=True))
            bench.pipe(CaseRecord(topic, key, given, time))
        rows = [one for one in bench.output() if one.topic == "O"]
    finally:
        bench.close()
    if not plan.table:
        return [(one.key, *one.value.values()) for one in rows]
    last: dict[Any, Any] = {}
    for one in rows:
        keys = tuple(one.key.values()) if isinstance(one.key, dict) else (one.key,)
        last[(*(() if one.window is None else one.window[:1]), *keys)] = one.value
    found = [(*key, *value.values()) for key, value in last.items() if value is not None]
    return [row for row in found if not plan.may_be_empty or row[-1] != 0]


COLUMNS = {"id": "STRING", "g": "INT", "v": "INT", "w": "DOUBLE", "n": "INT", "time": "INT"}


def tables_of(case: Case) -> dict[str, tuple[dict[str, str], list[Row]]]:
    """Columns and rows by name: of streams, of tables as they end, of the changes of both, and of starts of windows."""
    found: dict[str, tuple[dict[str, str], list[Row]]] = {
        "starts": ({"at": "INT"}, [(at,) for at in range(0, 70 * 900, 50)])
    }
    for name in "srtu":
        changes: list[Row] = [
            (key, *(value or (None,) * 3), number, time, int(value is None))
            for number, (topic, value, key, time) in enumerate(case.records)
            if topic == name
        ]
        kept = changes if name in "sr" else list({row[0]: row for row in changes}.values())
        found[f"{name}_changes"] = (COLUMNS | {"gone": "INT"}, changes)
        found[name] = (COLUMNS, [row[:-1] for row in kept if not row[-1]])
    return found


def by_sqlite(case: Case, plan: Plan) -> list[Row]:
    database = sqlite3.connect(":memory:")
    try:
        database.execute("PRAGMA case_sensitive_like = ON")
        for name, (columns, rows) in tables_of(case).items():
            database.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
            database.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)
        return database.execute(plan.batch).fetchall()
    finally:
        database.close()


def by_spark(spark: Any, case: Case, plan: Plan) -> list[Row]:
    import pyarrow as pa

    kinds = {"STRING": pa.string(), "INT": pa.int32(), "DOUBLE": pa.float64()}
    session = spark.newSession()
    for name, (columns, rows) in tables_of(case).items():
        if re.search(rf"\b{name}\b", plan.batch) is None:
            continue
        given = [pa.array([row[at] for row in rows], kinds[kind]) for at, kind in enumerate(columns.values())]
        session.createDataFrame(pa.table(given, names=list(columns))).createOrReplaceTempView(name)
    return [tuple(row) for row in session.sql(plan.batch).collect()]


def sortable(rows: list[Row]) -> list[Row]:
    """Equal where they hold equal rows in whatever order; doubles to nine digits, as sums differ in theirs."""
    plain = [tuple(round(one, 9) if isinstance(one, float) else one for one in row) for row in rows]
    return sorted(plain, key=lambda row: [(one is not None, str(type(one)), one) for one in row])


def difference(seed: int, in_batch: Callable[[Case, Plan], list[Row]] = by_sqlite) -> str | None:
    """None if the query gives what the other engine gives."""
    case = Case(seed)
    plan = case.plan()
    found, wanted = sortable(streamed(case, plan)), sortable(in_batch(case, plan))
    if found == wanted:
        return None
    return f"seed {seed}: {plan.sql}\nin batch: {plan.batch}\nfound  {found}\nwanted {wanted}"
