"""The server's state and what statements do to it. HTTP is in `http`; everything here blocks and runs in threads."""

from __future__ import annotations

import itertools
import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from barnabas.client.producer import Delivery
from barnabas.pipelines.sql.definitions import check_written, spelled_out
from barnabas.pipelines.sql.engine import DEFINING, Change, Engine, check_function
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.inserts import check_no_headers, check_target, kind_of, record_of, row_bytes
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.language.statements import each_statement, parse_statement
from barnabas.pipelines.sql.metastore import DataSource
from barnabas.pipelines.sql.plan.partitions import check_partitions
from barnabas.pipelines.sql.plan.planner import Planned, plan
from barnabas.pipelines.sql.relations import calls_in
from barnabas.pipelines.sql.server import answers
from barnabas.pipelines.sql.server.batches import Batches
from barnabas.pipelines.sql.server.commands import Command, CommandTopic
from barnabas.pipelines.sql.server.describing import Describing
from barnabas.pipelines.sql.server.kafka import EARLIEST, LATEST, Kafka
from barnabas.pipelines.sql.server.leadership import Leadership
from barnabas.pipelines.sql.server.lookups import Lookups
from barnabas.pipelines.sql.server.pulls import pull
from barnabas.pipelines.sql.server.pushes import PushQuery
from barnabas.pipelines.sql.server.queries import SLOTS, SparkQueries
from barnabas.pipelines.sql.server.reach import Reach, check_property
from barnabas.pipelines.sql.server.rights import require_right
from barnabas.pipelines.sql.server.settings import SqlSettings
from barnabas.pipelines.sql.server.views import Views
from barnabas.pipelines.sql.setting_names import bare_name
from barnabas.pipelines.sql.types import SqlType

log = logging.getLogger(__name__)
Tree = dict[str, Any]
SHARES = "ksql.runtime.feature.shared.enabled"
OFFSET_RESET = "auto.offset.reset"
LOG_STREAM = """CREATE STREAM IF NOT EXISTS `{name}` (logger STRING, level STRING, time BIGINT, message STRUCT<type INT,
 deserializationError STRUCT<target STRING, errorMessage STRING, recordB64 STRING, cause ARRAY<STRING>, topic STRING>>)
 WITH (kafka_topic='{topic}', value_format='JSON');"""


class WrongEndpoint(SqlError):
    code = 40002


class SqlService:
    def __init__(self, settings: SqlSettings) -> None:
        self.settings = settings
        self.kafka = Kafka(settings.kafka, settings.replication_factor)
        self.engine = Engine(settings=settings.defaults(), log_topic=settings.log_topic)
        self.lock = threading.RLock()
        directory = (settings.state_directory / settings.service_id).absolute()
        servers = str(settings.properties["bootstrap.servers"])
        security = {
            key: value for key, value in settings.properties.items() if key.startswith(("sasl.", "ssl.", "security."))
        }
        name = f"barnabas-sql-{settings.service_id}"
        conf = {key: value for key, value in settings.properties.items() if key.startswith("spark.")}
        shares = settings.properties.get(SHARES, "true").lower() != "false"
        self.queries = SparkQueries(
            servers,
            directory,
            name,
            settings.master,
            security,
            conf,
            kafka=self.kafka if shares else None,
            nice=settings.spark_nice,
        )
        self._reading = Kafka(settings.kafka)  # a connection that nothing else waits for
        self.views = Views(self._reading)
        self.lookups = Lookups(self.views)
        options = {"kafka.bootstrap.servers": servers} | {f"kafka.{key}": value for key, value in security.items()}
        self.reach = Reach.from_properties(settings.properties)
        self.batches = Batches(self.queries.session, options, self.views, self.reach)
        self.commands = CommandTopic(self.kafka, settings.command_topic, self._apply)
        self.leadership = Leadership(settings, directory, self._take_over, self.queries.deactivate)
        self.pushes: dict[str, PushQuery] = {}
        self.describing = Describing(self)
        self._numbers = itertools.count(int(time.time() * 1000))
        self.started_at = time.time()

    def start(self) -> None:
        self.commands.make()
        if not self.kafka.partitions(self.settings.slots_topic):
            self.kafka.create_topic(self.settings.slots_topic, SLOTS, None, {})
        if self.settings.queries_file is None:
            self.commands.start()
        self.queries.begin()
        threading.Thread(target=warm_up, name="sql-warm-up", daemon=True).start()
        if self.settings.queries_file is not None:
            self._run_file(self.settings.queries_file)
        self.leadership.start()
        if self.settings.queries_file is None and self.settings.makes_log_stream:
            self._log_stream()

    def _log_stream(self) -> None:
        """The processing log as a stream, if there is none of its name."""
        if self.settings.log_stream in self.engine.metastore.sources or self.commands.damage is not None:
            return
        self._log_topic()
        try:
            self.execute(LOG_STREAM.format(name=self.settings.log_stream, topic=self.settings.log_topic), {}, {})
        except SqlError as error:
            log.warning("the stream %s of the processing log was not made: %s", self.settings.log_stream, error)

    def _take_over(self, slots: Collection[int]) -> None:
        """The persistent queries of these slots are this server's, as they are after the last command."""
        if self.settings.queries_file is None:
            self.commands.catch_up()
        self.queries.activate(slots)

    def stop(self) -> None:
        for push in list(self.pushes.values()):
            push.stop()
        self.commands.stop()
        self.views.stop()
        self.queries.end()
        self.leadership.stop()  # last, so that no other server goes on before the queries have ended here
        self._reading.close()
        self.kafka.close()

    def _run_file(self, path: str) -> None:
        """Headless: the statements of a file, and no others."""
        from pathlib import Path

        settings = dict(self.engine.settings)
        for number, statement in enumerate(each_statement(Path(path).read_text(), {}, {})):
            if isinstance(statement, tree.SetProperty):
                settings[bare_name(statement.name)] = statement.value
            elif isinstance(statement, DEFINING):
                self._prepare(statement, settings)
                self._apply(number, Command(statement.text, settings, self._offsets(statement, settings)))
            elif isinstance(statement, tree.InsertValues):
                self._insert(statement)
            else:
                raise SqlError(f"{path}: a file of queries does not take this statement: {statement.text}")

    def execute(self, text: str, properties: Mapping[str, Any], variables: Mapping[str, str]) -> list[Tree]:
        """The statements of POST /ksql, one by one; each gives a tree."""
        session = checked(properties)
        found: list[Tree] = []
        types = dict(self.engine.metastore.types)
        for statement in each_statement(text, types, dict(variables)):
            answer = self._one(statement, session)
            if answer is not None:
                head = {"@type": answer.pop("@type"), "statementText": statement.text}
                found.append(head | answer | {"warnings": self._warnings()})
        return found

    def _warnings(self) -> list[Tree]:
        return [] if self.leadership.reason is None else [{"message": self.leadership.reason}]

    def _one(self, statement: tree.Statement, session: dict[str, Any]) -> Tree | None:
        require_right(statement)
        if isinstance(statement, tree.SetProperty):
            check_property(statement.name)
            if statement.system:
                self.engine.settings[bare_name(statement.name)] = statement.value
            elif statement.value is None:
                session.pop(bare_name(statement.name), None)
            else:
                session[bare_name(statement.name)] = statement.value
            return None
        if isinstance(statement, tree.Define):
            return None
        if isinstance(statement, tree.InsertValues):
            self._insert(statement)
            return None
        if isinstance(statement, DEFINING):
            return self._define(statement, session)
        if isinstance(statement, (tree.SelectStatement, tree.BatchSelect, tree.Print)):
            raise WrongEndpoint(
                "The following statement types should be issued to the websocket endpoint '/query': SELECT and PRINT."
            )
        return self.describing.answer(statement, session)

    def _define(self, statement: tree.Statement, session: dict[str, Any]) -> Tree:
        settings = self.engine.settings | session
        self.commands.catch_up()  # what other servers have defined
        self.commands.check()
        source = self._prepare(statement, settings)
        text = statement.text
        if isinstance(statement, tree.CreateSource) and source is not None:
            text = spelled_out(statement, source)
        command = Command(text, session, self._offsets(statement, settings))
        offset, change = self.commands.append(command_id(statement), command)
        if isinstance(change, Change) and change.deletes_topic is not None:
            self.kafka.delete_topic(change.deletes_topic)
        message = change.message if isinstance(change, Change) else ""
        query_id = change.starts.id if isinstance(change, Change) and change.starts is not None else None
        return {
            "@type": "currentStatus",
            "commandId": command_id(statement),
            "commandStatus": {"status": "SUCCESS", "message": message, "queryId": query_id},
            "commandSequenceNumber": offset,
        }

    def _prepare(self, statement: tree.Statement, settings: dict[str, Any]) -> DataSource | None:
        """Refuses a statement that cannot be applied, and makes the topics that it needs before anybody applies it.
        Gives the stream or table that it defines."""
        if isinstance(statement, tree.CreateFunction):
            self.reach.check_module(statement.place)
            check_function(statement)
        with self.lock:
            trial = self.engine.copy()
        change = trial.apply(statement, 0, settings)
        source = change.source
        if change.starts is not None and source is not None:
            check_written(source, self.engine.settings | settings)
        if change.starts is not None:
            check_partitions(trial.metastore, change.starts.planned, self.kafka.partitions)
            self._log_topic()
        if isinstance(statement, tree.CreateSource) and source is not None:
            self._source_topic(source)
        elif source is not None:
            self._sink_topic(source, change)
        return source

    def _log_topic(self) -> None:
        if not self.kafka.partitions(self.settings.log_topic):
            self.kafka.create_topic(self.settings.log_topic, 1, None, {})

    def _source_topic(self, source: DataSource) -> None:
        there = self.kafka.partitions(source.topic)
        if not there and source.partitions is None:
            raise SqlError(
                f"Topic '{source.topic}' does not exist. If you want to create a new topic for the stream/table please "
                "re-run the statement providing the required 'PARTITIONS' configuration in the WITH clause (and "
                "optionally 'REPLICAS'). For example: WITH (..., PARTITIONS=1)"
            )
        check_there(source, there)
        if not there and source.partitions is not None:
            configs = {"cleanup.policy": "compact"} if source.table else {}
            self.kafka.create_topic(source.topic, source.partitions, source.replicas, configs)

    def _sink_topic(self, source: DataSource, change: Change) -> None:
        there = self.kafka.partitions(source.topic)
        check_there(source, there)
        if there:
            return
        assert change.starts is not None
        first = self.engine.metastore.source(change.starts.sources[0])
        partitions = source.partitions or self.kafka.partitions(first.topic)
        if not partitions:
            raise SqlError(f"Topic {first.topic} of {first.name} does not exist.")
        policy = ("compact,delete" if source.window else "compact") if source.table else "delete"
        self.kafka.create_topic(source.topic, partitions, source.replicas, {"cleanup.policy": policy})

    def _offsets(self, statement: tree.Statement, settings: Mapping[str, Any]) -> dict[str, dict[str, int]] | None:
        """Where a new query begins, if that is at the end of now; None for the beginning."""
        if not isinstance(statement, (tree.CreateAs, tree.InsertSelect)):
            return None
        if str(settings.get(OFFSET_RESET, "latest")).lower() == "earliest":
            return None
        names = [statement.query.source.name, *(one.source.name for one in statement.query.joins)]
        topics = {self.engine.metastore.source(name).topic for name in names}
        found: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in self.kafka.offsets(topics, LATEST).items():
            found.setdefault(topic, {})[str(partition)] = offset
        return found

    def _apply(self, offset: int, command: Command) -> Change:
        """A command from the topic; in the thread that reads it."""
        with self.lock:
            statement = parse_statement(command.statement, self.engine.metastore.types)
            change = self.engine.apply(statement, offset, command.properties)
        if isinstance(statement, tree.DropSource):
            self.views.forget(statement.name)
        for query_id in change.stops:
            if change.starts is None or change.starts.id != query_id:
                self.queries.stop(query_id, forget=True)
        for query_id in change.pauses:
            self.queries.pause(query_id)
        for query_id in change.resumes:
            self.queries.resume(query_id)
        if change.starts is not None:
            given = command.offsets
            offsets: Any = EARLIEST_NAME
            if given is not None:
                offsets = {topic: {int(one): at for one, at in found.items()} for topic, found in given.items()}
            self.queries.start(change.starts, offsets)
        return change

    def terminate(self, patterns: list[str]) -> Tree:
        """Ends all queries, and deletes the sinks' topics whose names fit a pattern."""
        with self.lock:
            sinks = sorted({one.topic for one in self.engine.queries.values()})
        if self.engine.queries:
            self.execute("TERMINATE ALL;", {}, {})
        for topic in sinks:
            if any(re.fullmatch(one, topic) for one in patterns):
                self.kafka.delete_topic(topic)
        return {
            "@type": "currentStatus",
            "statementText": "TERMINATE CLUSTER;",
            "commandId": "cluster/TerminateCluster/terminate",
            "commandStatus": {"status": "SUCCESS", "message": "Queries terminated.", "queryId": None},
            "warnings": [],
        }

    def _insert(self, statement: tree.InsertValues) -> None:
        with self.lock:
            source = self.engine.metastore.source(statement.target)
            functions = self.engine.metastore.functions
        key, value, time_ms = record_of(source, statement, now_ms=int(time.time() * 1000), functions=functions)
        self._require_topic(source)
        self.kafka.send(source.topic, key, value, time_ms)

    def check_insert(self, target: str) -> None:
        """Whether rows can be inserted there."""
        with self.lock:
            source = self.engine.metastore.source(target)
        check_target(source)
        self._require_topic(source)

    def _require_topic(self, source: DataSource) -> None:
        """A producer would make a topic that is gone, with the broker's number of partitions."""
        if not self.kafka.partitions(source.topic):
            raise SqlError(f"Topic {source.topic} of {source.name} does not exist.")

    def insert_row(self, target: str, row: Mapping[str, Any]) -> Delivery:
        """A row of POST /inserts-stream, JSON by column: it is sent, and its delivery tells when it is there."""
        from barnabas.pipelines.sql.formats.json import coercion

        with self.lock:
            source = self.engine.metastore.source(target)
        check_target(source)
        values: dict[str, Any] = {}
        for name, value in row.items():
            column = name if source.column(name) is not None else name.upper()
            kind = kind_of(source, column)
            try:
                values[column] = None if value is None else coercion(kind)(value)
            except ValueError as error:
                raise SqlError(f"Can't coerce a field of column {column} to {kind}: {error}") from None
        check_no_headers(source, values)
        key, data, time_ms = row_bytes(source, values, int(time.time() * 1000))
        return self.kafka.begin_send(source.topic, key, data, time_ms)

    def select(
        self,
        statement: tree.SelectStatement | tree.BatchSelect,
        properties: Mapping[str, Any],
        rows: Callable[[list[Any]], bool],
        done: Callable[[str | None, str | None], None],
    ) -> tuple[str, tuple[str, ...], Any, Any]:
        """Starts a query. Gives its id, names and types, and the rows where it was a pull query of a table."""
        settings = self.engine.settings | checked(properties)
        with self.lock:
            metastore = self.engine.metastore.copy()
        number = next(self._numbers)
        if isinstance(statement, tree.BatchSelect) or in_batch(statement.query):
            names, kinds, found = self.batches.select(metastore, statement.text)
            return f"query_{number}", names, kinds, found
        query = statement.query
        source = metastore.source(query.source.name)
        if query.emit is None and source.table and not query.joins:
            names, kinds, found = pull(metastore, query, self.views)
            self.lookups.keep(metastore, query, statement.text)
            return f"query_{number}", names, kinds, found
        query_id = f"transient_{source.name}_{number}"
        planned = plan(metastore, query, name=query_id, settings=settings)
        to_end = query.emit is None
        earliest = to_end or str(settings.get(OFFSET_RESET, "latest")).lower() == "earliest"
        sources = [metastore.source(name) for name in planned.sources]
        for one in sources:
            self._require_topic(one)
        check_partitions(metastore, planned, self.kafka.partitions)
        topics = sorted({one.topic for one in sources})

        def ended(final: str | None, error: str | None) -> None:
            self.pushes.pop(query_id, None)
            done(final, error)

        push = PushQuery(
            self.kafka,
            query_id,
            planned,
            topics,
            start=EARLIEST if earliest else LATEST,
            limit=query.limit,
            to_end=to_end,
            rows=rows,
            done=ended,
        )
        self.pushes[query_id] = push  # before it can end
        push.start()
        return query_id, planned.names, planned.kinds, None

    def lookup(self, text: str) -> tuple[str, tuple[str, ...], list[SqlType], list[Any]] | None:
        """A pull query by key that looks like an earlier one."""
        found = self.lookups.answer(self.engine.metastore, text)
        return None if found is None else (f"query_{next(self._numbers)}", *found)

    def planned(self, statement: tree.Statement) -> Planned:
        """What EXPLAIN shows of a statement that does not run."""
        if isinstance(statement, tree.SelectStatement):
            with self.lock:
                return plan(self.engine.metastore.copy(), statement.query, name="explained")
        with self.lock:
            change = self.engine.copy().apply(statement, 0)
        if change.starts is None:
            raise SqlError("EXPLAIN is for SELECT, CREATE ... AS SELECT and INSERT INTO ... SELECT.")
        return change.starts.planned

    def status(self) -> Tree:
        return {
            "isHealthy": self.commands.damage is None,
            "details": {
                "metastore": {"isHealthy": True},
                "kafka": {"isHealthy": True},
                "commandRunner": {"isHealthy": self.commands.damage is None},
            },
        }


EARLIEST_NAME = "earliest"


def checked(properties: Mapping[str, Any]) -> dict[str, Any]:
    """A request's properties, which are what SET may set."""
    for name in properties:
        check_property(name)
    return {bare_name(name): value for name, value in properties.items()} | {
        name: value for name, value in properties.items() if name == bare_name(name)
    }


OF_SPARK = ("AVG", "COLLECT_LIST", "COLLECT_SET", "COUNT", "MAX", "MIN", "STDDEV_SAMP", "SUM")  # aggregates it has too


def in_batch(query: tree.Query) -> bool:
    """A question about now that no store answers: Spark does."""
    items = [item.expression for item in query.items if item.expression is not None]
    return (
        query.emit is None
        and query.as_of is None
        and query.window is None
        and bool(query.joins or query.group_by or query.having or any(calls_in(one, OF_SPARK) for one in items))
    )


def check_there(source: DataSource, partitions: int) -> None:
    """Of a topic that is there, or has none."""
    if partitions and source.partitions is not None and partitions != source.partitions:
        raise SqlError(
            f"A Kafka topic with the name '{source.topic}' already exists, with {partitions} partitions and not with "
            f"{source.partitions}."
        )


def warm_up() -> None:
    """Imports what the first push query needs, by running one over a record."""
    from barnabas.pipelines.sql.local import LocalRun

    engine = Engine()
    create = "CREATE STREAM warm (k STRING KEY, v INT) WITH (kafka_topic='warm', value_format='JSON');"
    engine.apply(parse_statement(create), 0)
    select = parse_statement("SELECT k, COUNT(*) FROM warm GROUP BY k EMIT CHANGES;")
    assert isinstance(select, tree.SelectStatement)
    run = LocalRun(plan(engine.metastore, select.query, name="warm").topology, {"warm": 1})
    run.process([("warm", 0, 0, 0, b"k", b'{"v": 1}', ())])
    run.close()


def command_id(statement: tree.Statement) -> str:
    if isinstance(statement, (tree.CreateSource, tree.CreateAs)):
        return f"{'table' if statement.table else 'stream'}/`{statement.name}`/create"
    if isinstance(statement, tree.DropSource):
        return f"{'table' if statement.table else 'stream'}/{statement.name}/drop"
    if isinstance(statement, tree.QueryAction):
        return f"terminate/{statement.query_id or 'ALL'}/execute"
    if isinstance(statement, tree.InsertSelect):
        return f"stream/`{statement.target}`/create"
    name = getattr(statement, "name", "it")
    return f"type/{name}/{'drop' if isinstance(statement, tree.DropType) else 'create'}"


__all__ = ["SqlService", "WrongEndpoint", "answers", "command_id"]
