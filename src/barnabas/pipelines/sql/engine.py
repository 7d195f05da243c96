"""Statements that define: the metastore after them, and the queries that have to run. Nothing here runs anything.

The same code validates a statement on a copy of the metastore, applies it when it comes back from the command topic,
and serves the test runner.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from barnabas.pipelines.sql.compute.aggregates import AGGREGATES
from barnabas.pipelines.sql.definitions import check_properties, defined, format_info, named_column
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.formats.codecs import check_format
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.language.statements import parse_statement
from barnabas.pipelines.sql.metastore import KEY, VALUE, DataSource, FormatInfo, Metastore, SourceColumn, WindowInfo
from barnabas.pipelines.sql.plan import outputs
from barnabas.pipelines.sql.plan.flows import Flow
from barnabas.pipelines.sql.plan.planner import Planned, plan
from barnabas.pipelines.sql.relations import calls_in
from barnabas.pipelines.sql.types import SqlType
from barnabas.pipelines.streams.checks import fingerprint
from barnabas.pipelines.streams.checks import kind_of as kind_of_step

DEFINING = (
    tree.CreateSource,
    tree.CreateAs,
    tree.InsertSelect,
    tree.DropSource,
    tree.AlterSource,
    tree.CreateType,
    tree.DropType,
    tree.CreateFunction,
    tree.QueryAction,
)


@dataclass(frozen=True)
class PersistentQuery:
    id: str
    statement: str
    sink: str  # the stream or table
    topic: str
    planned: Planned
    sources: tuple[str, ...]
    properties: dict[str, Any] = field(default_factory=dict)
    kind: str = "CREATE_AS"


@dataclass(frozen=True)
class Change:
    """What a statement did: a sentence for the user, and queries that start, stop, pause or resume."""

    message: str
    source: DataSource | None = None
    starts: PersistentQuery | None = None
    stops: tuple[str, ...] = ()
    pauses: tuple[str, ...] = ()
    resumes: tuple[str, ...] = ()
    deletes_topic: str | None = None


@dataclass
class Engine:
    metastore: Metastore = field(default_factory=Metastore)
    settings: dict[str, Any] = field(default_factory=dict)
    queries: dict[str, PersistentQuery] = field(default_factory=dict)
    log_topic: str | None = None

    def copy(self) -> Engine:
        return Engine(self.metastore.copy(), dict(self.settings), dict(self.queries), self.log_topic)

    def apply(self, statement: tree.Statement, number: int, properties: dict[str, Any] | None = None) -> Change:
        """`number` makes ids of queries: it is the statement's place in the command topic."""
        settings = self.settings | (properties or {})
        if isinstance(statement, tree.CreateSource):
            return self._create(statement, settings)
        if isinstance(statement, tree.CreateAs):
            return self._create_as(statement, number, settings)
        if isinstance(statement, tree.InsertSelect):
            return self._insert(statement, number, settings)
        if isinstance(statement, tree.DropSource):
            return self._drop(statement)
        if isinstance(statement, tree.AlterSource):
            return self._alter(statement)
        if isinstance(statement, tree.QueryAction):
            return self._act(statement)
        return self._define(statement)

    def _create(self, statement: tree.CreateSource, settings: dict[str, Any]) -> Change:
        known = self.metastore.sources.get(statement.name)
        if known is not None and statement.if_not_exists:
            return Change(already(statement, known))
        if statement.or_replace and (statement.read_only or (known is not None and known.read_only)):
            kind = kind_of(statement)
            raise SqlError(
                f"Cannot add {kind} '{statement.name}': CREATE OR REPLACE is not supported on source {kind}s."
            )
        source = defined(statement, settings)
        if known is not None and statement.or_replace:
            check_replaceable(known, source)
        self.metastore.add(source, replace_existing=statement.or_replace)
        return Change(f"{source.kind.capitalize()} created", source)

    def _create_as(self, statement: tree.CreateAs, number: int, settings: dict[str, Any]) -> Change:
        known = self.metastore.sources.get(statement.name)
        if known is not None and statement.if_not_exists:
            return Change(already(statement, known))
        if known is not None and not statement.or_replace:
            raise SqlError(already(statement, known))
        kind = "CTAS" if statement.table else "CSAS"
        query_id = f"{kind}_{statement.name}_{number}"
        stops: tuple[str, ...] = ()
        if known is not None and known.query_id is not None:
            query_id, stops = known.query_id, (known.query_id,)
        source, planned = self._planned_as(statement, query_id, settings)
        if known is not None:
            check_replaceable(known, source)
            if known.query_id in self.queries:
                check_state_goes_on(self.queries[known.query_id], statement.query, planned, self.metastore.types)
        query = PersistentQuery(query_id, statement.text, source.name, source.topic, planned, planned.sources, settings)
        self.metastore.add(source, replace_existing=known is not None)
        self._note(query)
        return Change(f"Created query with ID {query_id}", source, query, stops)

    def _note(self, query: PersistentQuery) -> None:
        self.metastore.note_query(query.id, list(query.sources), query.sink)
        self.queries[query.id] = query

    def _planned_as(
        self, statement: tree.CreateAs, query_id: str, settings: dict[str, Any]
    ) -> tuple[DataSource, Planned]:
        properties = check_properties(statement.properties)
        first = self.metastore.source(statement.query.source.name)
        made: list[DataSource] = []

        def finish(flow: Flow, selected: outputs.Selected) -> tuple[Flow, outputs.Selected]:
            check_kind(statement, flow)
            source = sink_source(statement, query_id, first, selected, flow, properties, settings)
            made.append(source)
            return outputs.write(flow, selected, sink_info(source)), selected

        planned = plan(
            self.metastore,
            statement.query,
            name=query_id,
            finish=finish,
            persistent=statement.name,
            log_topic=self.log_topic,
            exactly_once=str(settings.get("processing.guarantee", "")).startswith("exactly_once"),
            settings=settings,
        )
        return made[0], planned

    def _insert(self, statement: tree.InsertSelect, number: int, settings: dict[str, Any]) -> Change:
        target = self.metastore.source(statement.target)
        if target.table:
            raise SqlError(f"INSERT INTO can only be used to insert into a stream. {target.name} is a table.")
        if target.read_only:
            raise SqlError(f"Cannot insert into read-only stream: {target.name}")
        given = statement.properties.get("QUERY_ID") or statement.properties.get("query_id")
        query_id = str(given).upper() if given else f"INSERTQUERY_{number}"

        def finish(flow: Flow, selected: outputs.Selected) -> tuple[Flow, outputs.Selected]:
            if flow.table:
                raise SqlError(f"Incompatible data sink type: {target.name} is a stream, and the query gives a table.")
            ordered = outputs.reordered(selected, target.columns, target.name)
            return outputs.write(flow, ordered, sink_info(target)), ordered

        planned = plan(
            self.metastore,
            statement.query,
            name=query_id,
            finish=finish,
            persistent=target.name,
            log_topic=self.log_topic,
            exactly_once=str(settings.get("processing.guarantee", "")).startswith("exactly_once"),
            settings=settings,
        )
        query = PersistentQuery(
            query_id, statement.text, target.name, target.topic, planned, planned.sources, settings, "INSERT"
        )
        self._note(query)
        return Change(f"Created query with ID {query_id}", None, query)

    def _drop(self, statement: tree.DropSource) -> Change:
        known = self.metastore.sources.get(statement.name)
        if known is not None and known.read_only and statement.delete_topic:
            raise SqlError(f"Cannot delete topic for read-only source: {known.name}")
        kind = "Table" if statement.table else "Stream"
        if known is None:
            if statement.if_exists:
                return Change(f"Source {statement.name} does not exist.")
            self.metastore.source(statement.name)
        assert known is not None
        if known.table != statement.table:
            raise SqlError(f"Incompatible data source type is {known.kind}, but statement was DROP {kind.upper()}")
        self.metastore.drop(statement.name)
        stops = () if known.query_id is None else (known.query_id,)
        for one in stops:
            self._forget(one)
        topic = known.topic if statement.delete_topic else None
        return Change(
            f"Source `{known.name}` (topic: {known.topic}) was dropped.", None, None, stops, deletes_topic=topic
        )

    def _forget(self, query_id: str) -> None:
        self.queries.pop(query_id, None)
        self.metastore.forget_query(query_id)
        for name, source in list(self.metastore.sources.items()):
            if source.query_id == query_id:
                self.metastore.sources[name] = replace(source, query_id=None)

    def _alter(self, statement: tree.AlterSource) -> Change:
        source = self.metastore.source(statement.name)
        if source.read_only:
            raise SqlError(
                f"Cannot alter {source.kind.lower()} '{source.name}': ALTER operations are not supported on source "
                f"{source.kind.lower()}s."
            )
        if source.query_id is not None:
            raise SqlError("ALTER command is not supported for CREATE ... AS statements.")
        self.metastore.alter(statement.name, [SourceColumn(one.name, one.kind) for one in statement.columns])
        return Change(f"{source.kind.capitalize()} {source.name} altered successfully.")

    def _act(self, statement: tree.QueryAction) -> Change:
        if statement.query_id is None:
            ids = tuple(self.queries)
        else:
            ids = tuple(one for one in self.queries if one.upper() == statement.query_id.upper())
            if not ids:
                from barnabas.pipelines.sql.errors import nearest

                hint = nearest(statement.query_id, list(self.queries))
                raise SqlError(f"Unknown queryId: {statement.query_id}.{hint}")
        if statement.action == "TERMINATE":
            for one in ids:
                self._forget(one)
            return Change("Query terminated.", stops=ids)
        if statement.action == "PAUSE":
            return Change("Query paused.", pauses=ids)
        return Change("Query resumed.", resumes=ids)

    def _define(self, statement: tree.Statement) -> Change:
        types = self.metastore.types
        if isinstance(statement, tree.CreateType):
            if statement.name in types:
                if statement.if_not_exists:
                    return Change(f"{statement.name} is already registered with type {types[statement.name]}")
                raise SqlError(
                    f"Cannot register custom type '{statement.name}' since it is already registered with type: "
                    f"{types[statement.name]}"
                )
            types[statement.name] = statement.kind
            return Change(f"Registered custom type with name '{statement.name}' and SQL type {statement.kind}")
        if isinstance(statement, tree.DropType):
            if types.pop(statement.name, None) is None and not statement.if_exists:
                raise SqlError(f"Type {statement.name} does not exist.")
            return Change(f"Dropped type '{statement.name}'")
        if isinstance(statement, tree.CreateFunction):
            self.metastore.functions[statement.name] = (statement.arguments, statement.returns, statement.place)
            return Change(f"Function {statement.name} created")
        raise SqlError(f"{type(statement).__name__} is no statement that defines anything.")


def already(statement: tree.CreateSource | tree.CreateAs, known: DataSource) -> str:
    kind = known.kind.lower()
    return f"Cannot add {kind_of(statement)} `{statement.name}`: A {kind} with the same name already exists."


def kind_of(statement: tree.CreateSource | tree.CreateAs) -> str:
    return "table" if statement.table else "stream"


def check_kind(statement: tree.CreateAs, flow: Flow) -> None:
    if flow.table != statement.table:
        gives, wanted = ("TABLE", "TABLE") if flow.table else ("STREAM", "STREAM")
        raise SqlError(
            f"Invalid result type. Your SELECT query produces a {gives}. Please use CREATE {wanted} AS SELECT "
            "statement instead."
        )


KEYS_STAY = "Key columns must be identical. "


def check_replaceable(known: DataSource, new: DataSource) -> None:
    """CREATE OR REPLACE keeps topic, formats, key and the columns that were there."""
    if known.table != new.table:
        raise SqlError(f"Cannot upgrade data source: {known.name} is a {known.kind}, not a {new.kind}.")
    for what in ("topic", "key_format", "value_format", "window"):
        if getattr(known, what) != getattr(new, what):
            raise SqlError(
                f"Cannot upgrade data source: DataSource '{known.name}' has {what.replace('_', ' ')} = "
                f"{shown(getattr(known, what))}, which cannot be upgraded to {shown(getattr(new, what))}"
            )
    for what, before, after in (("key columns", known.keys, new.keys), ("columns", known.values, new.values)):
        there = after[: len(before)] if what == "columns" else after
        if before != there:
            gone = [one for at, one in enumerate(before) if at >= len(there) or there[at] != one] or list(before)
            told = ", ".join(f"`{one.name}` {one.kind}{' KEY' if one.role == KEY else ''}" for one in gone)
            raise SqlError(
                f"Cannot upgrade data source: DataSource '{known.name}' must keep its columns in order, new ones come "
                f"last. ({KEYS_STAY if what == 'key columns' else ''}The following {what} are changed, missing or "
                f"reordered: [{told}])"
            )


def check_state_goes_on(old: PersistentQuery, query: tree.Query, planned: Planned, types: dict[str, SqlType]) -> None:
    """A query that goes on at the checkpoint of another must have its steps, and mean the same by what they keep."""
    steps, new_steps = (fingerprint(one.topology.graph, {})["operators"] for one in (old.planned, planned))
    before = parse_statement(old.statement, types)
    assert isinstance(before, (tree.CreateAs, tree.InsertSelect))
    advice = f"TERMINATE {old.id}, DROP {old.sink} and create it anew"
    keeps = any(one["stores"] or kind_of_step(one) == "repartition" for one in (*steps, *new_steps))
    if keeps and [one["name"] for one in steps] != [one["name"] for one in new_steps]:
        raise SqlError(
            f"Cannot upgrade query {old.id}: the new one has other steps, and its state cannot go on. {advice}."
        )
    for what, kept, wanted in (
        ("sources", sources_in(before.query), sources_in(query)),
        ("GROUP BY", before.query.group_by, query.group_by),
        ("WINDOW", before.query.window, query.window),
        ("aggregates", aggregates_in(before.query), aggregates_in(query)),
    ):
        if kept != wanted:
            raise SqlError(
                f"Cannot upgrade query {old.id}: its {what} would change, and its state cannot go on. {advice}."
            )


def sources_in(query: tree.Query) -> list[Any]:
    joins = [(one.kind, one.source, one.on, one.before_ms, one.after_ms, one.grace_ms) for one in query.joins]
    return [query.source, *joins]


def aggregates_in(query: tree.Query) -> list[tree.Call]:
    expressions = [one.expression for one in query.items if one.expression is not None]
    return [call for one in (*expressions, query.having) if one is not None for call in calls_in(one, AGGREGATES)]


def shown(part: Any) -> str:
    """A topic, a format or a window, for a sentence."""
    if isinstance(part, FormatInfo):
        settings = [f"{name}={value}" for name, value in part.settings if name != "REGISTRY" and value is not None]
        return f"{part.name} ({', '.join(settings)})" if settings else part.name
    if isinstance(part, WindowInfo):
        return part.kind if part.size_ms is None else f"{part.kind} of {part.size_ms} ms"
    return "none" if part is None else str(part)


def check_function(statement: tree.CreateFunction) -> None:
    """Refuses a function that is not there. A replay of the command topic does not ask: there it may come back."""
    from barnabas.pipelines.sql.compute.evaluate import PythonFunction

    try:
        PythonFunction(statement.place).found()
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise SqlError(f"Function {statement.name} cannot be made of '{statement.place}': {error}.") from None


def sink_info(source: DataSource) -> outputs.SinkInfo:
    return outputs.SinkInfo(
        source.topic, source.key_format, source.value_format, source.timestamp_column, source.timestamp_format
    )


def sink_source(
    statement: tree.CreateAs,
    query_id: str,
    first: DataSource,
    selected: outputs.Selected,
    flow: Flow,
    properties: dict[str, Any],
    settings: dict[str, Any],
) -> DataSource:
    """The stream or table that CREATE ... AS makes: formats and partitions are those of its first source."""
    columns = list(selected.columns())
    keys = [one for one in columns if one.role == KEY]
    values = [one for one in columns if one.role == VALUE]
    key_name = str(properties.get("KEY_FORMAT") or inherited_key(first.key_format, settings))
    check_format(key_name, [], "key")
    value_name = str(properties.get("VALUE_FORMAT") or first.value_format.name)
    timestamp = properties.get("TIMESTAMP")
    passed_on = {"VALUE_DELIMITER": first.value_format.get("DELIMITER")} if value_name.upper() == "DELIMITED" else {}
    merged = {name: value for name, value in passed_on.items() if value is not None} | properties
    retention = flow.window
    return DataSource(
        statement.name,
        statement.table,
        tuple(columns),
        str(properties.get("KAFKA_TOPIC") or f"{settings.get('ksql.output.topic.name.prefix', '')}{statement.name}"),
        format_info(key_name, keys, merged, settings, "KEY") if keys else FormatInfo("NONE"),
        format_info(value_name, values, merged, settings, "VALUE"),
        retention,
        named_column(str(timestamp), columns) if timestamp is not None else None,
        properties.get("TIMESTAMP_FORMAT"),
        statement.text,
        False,
        query_id,
        None if properties.get("PARTITIONS") is None else int(properties["PARTITIONS"]),
        None if properties.get("REPLICAS") is None else int(properties["REPLICAS"]),
    )


def inherited_key(info: FormatInfo, settings: dict[str, Any]) -> str:
    return info.name if info.name != "NONE" else str(settings.get("ksql.persistence.default.format.key", "KAFKA"))
