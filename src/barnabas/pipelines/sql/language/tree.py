"""The tree of a statement. `at` is the place in the source: (line, column)."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from barnabas.pipelines.sql.types import SqlType

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Expression:
    at: Place = field(default=(0, 0), compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    value: bool | int | float | str | Decimal | None
    kind: SqlType


@dataclass(frozen=True, slots=True)
class Column(Expression):
    """`source` is the alias of a FROM, where one is written."""

    name: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Field(Expression):
    """base->name"""

    base: Expression
    name: str


@dataclass(frozen=True, slots=True)
class Subscript(Expression):
    base: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Call(Expression):
    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Lambda(Expression):
    parameters: tuple[str, ...]
    body: Expression


@dataclass(frozen=True, slots=True)
class Unary(Expression):
    """- + NOT"""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Expression):
    """Arithmetic, comparison, AND, OR, IS DISTINCT FROM, IS NOT DISTINCT FROM."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class IsNull(Expression):
    operand: Expression
    negated: bool


@dataclass(frozen=True, slots=True)
class Between(Expression):
    operand: Expression
    low: Expression
    high: Expression
    negated: bool


@dataclass(frozen=True, slots=True)
class InList(Expression):
    operand: Expression
    values: tuple[Expression, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Like(Expression):
    operand: Expression
    pattern: Expression
    escape: str | None
    negated: bool


@dataclass(frozen=True, slots=True)
class Case(Expression):
    operand: Expression | None
    whens: tuple[tuple[Expression, Expression], ...]
    default: Expression | None


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    operand: Expression
    kind: SqlType


@dataclass(frozen=True, slots=True)
class ArrayOf(Expression):
    elements: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class MapOf(Expression):
    entries: tuple[tuple[Expression, Expression], ...]


@dataclass(frozen=True, slots=True)
class StructOf(Expression):
    fields: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class SelectItem:
    """`expression` is None for a star: of all, of a source (`source.*`), or of a struct (`base->*`)."""

    expression: Expression | None
    alias: str | None = None
    source: str | None = None
    struct: Expression | None = None
    at: Place = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Window:
    """`kind` is TUMBLING, HOPPING or SESSION; times are milliseconds, None where they are not given."""

    kind: str
    size_ms: int
    advance_ms: int | None = None
    retention_ms: int | None = None
    grace_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Source:
    name: str
    alias: str
    at: Place = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Join:
    """`kind` is INNER, LEFT, RIGHT or OUTER."""

    kind: str
    source: Source
    on: Expression
    before_ms: int | None = None
    after_ms: int | None = None
    grace_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """`emit` is None (a pull query, or whatever its statement takes), CHANGES or FINAL. `as_of` is a time in
    milliseconds, or as text."""

    items: tuple[SelectItem, ...]
    source: Source
    joins: tuple[Join, ...] = ()
    window: Window | None = None
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    partition_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    emit: str | None = None
    limit: int | None = None
    as_of: int | str | None = None


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """`role` is VALUE, KEY, PRIMARY KEY or HEADERS; `header` names one header."""

    name: str
    kind: SqlType
    role: str = "VALUE"
    header: str | None = None


Properties = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Statement:
    text: str = field(default="", compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class CreateSource(Statement):
    """CREATE STREAM or TABLE over a topic."""

    table: bool
    name: str
    columns: tuple[ColumnDefinition, ...]
    properties: Properties
    or_replace: bool = False
    if_not_exists: bool = False
    read_only: bool = False  # CREATE SOURCE STREAM


@dataclass(frozen=True, slots=True)
class CreateAs(Statement):
    """CREATE STREAM or TABLE ... AS SELECT."""

    table: bool
    name: str
    query: Query
    properties: Properties
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class InsertSelect(Statement):
    target: str
    query: Query
    properties: Properties


@dataclass(frozen=True, slots=True)
class InsertValues(Statement):
    target: str
    columns: tuple[str, ...]
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class SelectStatement(Statement):
    query: Query


@dataclass(frozen=True, slots=True)
class BatchSelect(Statement):
    """A SELECT for Spark, which reads its text."""


@dataclass(frozen=True, slots=True)
class DropSource(Statement):
    table: bool
    name: str
    if_exists: bool
    delete_topic: bool


@dataclass(frozen=True, slots=True)
class AlterSource(Statement):
    table: bool
    name: str
    columns: tuple[ColumnDefinition, ...]


@dataclass(frozen=True, slots=True)
class CreateType(Statement):
    name: str
    kind: SqlType
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DropType(Statement):
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class CreateConnector(Statement):
    name: str
    source: bool
    properties: Properties
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DropConnector(Statement):
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class CreateFunction(Statement):
    """CREATE FUNCTION name(argument types) RETURNS type AS 'module:function'."""

    name: str
    arguments: tuple[SqlType, ...]
    returns: SqlType
    place: str


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """`what` is STREAMS, TABLES, TOPICS, QUERIES, FUNCTIONS, PROPERTIES, TYPES, VARIABLES, CONNECTORS, ..."""

    what: str
    extended: bool = False
    everything: bool = False  # SHOW ALL TOPICS


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    """`what` is SOURCE, FUNCTION, CONNECTOR, STREAMS or TABLES."""

    what: str
    name: str
    extended: bool = False


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    """Of a running query, or of a statement; `last` records are tried."""

    query_id: str | None
    statement: Statement | None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Print(Statement):
    topic: str
    from_beginning: bool = False
    interval: int = 1
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class QueryAction(Statement):
    """TERMINATE, PAUSE or RESUME; `query_id` is None for ALL."""

    action: str
    query_id: str | None


@dataclass(frozen=True, slots=True)
class SetProperty(Statement):
    name: str
    value: str | None  # None: UNSET
    system: bool = False


@dataclass(frozen=True, slots=True)
class Define(Statement):
    name: str
    value: str | None  # None: UNDEFINE


@dataclass(frozen=True, slots=True)
class RunScript(Statement):
    path: str


@dataclass(frozen=True, slots=True)
class Assert(Statement):
    """ASSERT [NOT EXISTS] TOPIC or SCHEMA; and of the test runner VALUES, NULL VALUES, STREAM and TABLE."""

    what: str
    properties: Properties
    exists: bool = True
    timeout_ms: int = 1000
