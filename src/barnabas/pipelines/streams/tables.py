"""The tables of a topology: rows by key that records change, and that a record without a value removes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from barnabas.pipelines.streams import arguments
from barnabas.pipelines.streams.errors import TopologyError
from barnabas.pipelines.streams.expressions import Expression
from barnabas.pipelines.streams.graph import Facts, GlobalNode, Graph, NamedStore, Node
from barnabas.pipelines.streams.operators.aggregates import GroupTable
from barnabas.pipelines.streams.operators.foreign_key import JoinByForeignKey, Subscribe
from barnabas.pipelines.streams.operators.operator import Joiner, Operator
from barnabas.pipelines.streams.operators.stateless import Filter, MapValues, Repartition, ToStream
from barnabas.pipelines.streams.operators.suppress import Suppress, SuppressForTime
from barnabas.pipelines.streams.operators.tables import JoinTables, Materialize, TableSource
from barnabas.pipelines.streams.serdes import AUTO, Serde
from barnabas.pipelines.streams.streams import OUTER, Stream
from barnabas.pipelines.streams.windows import Duration, SessionWindows, TimeWindows, milliseconds

if TYPE_CHECKING:
    from barnabas.pipelines.streams.grouped import GroupedTable

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
V3 = TypeVar("V3")


class Table(Generic[K, V]):
    def __init__(self, graph: Graph, node: Node) -> None:
        self._graph = graph
        self._node = node

    def filter(self, predicate: Callable[[K, V], Any] | Expression, *, store: str | None = None) -> Table[K, V]:
        """A row that does not satisfy it is gone, and a row that no longer does gets a tombstone."""
        return self._then(
            "filter",
            Filter(arguments.function_or_column("filter", arguments.without_context("filter", predicate))),
            store,
        )

    def filter_not(self, predicate: Callable[[K, V], Any] | Expression, *, store: str | None = None) -> Table[K, V]:
        predicate = arguments.without_context("filter_not", predicate)
        operator = Filter(arguments.function_or_column("filter_not", predicate), wanted=False)
        return self._then("filter_not", operator, store)

    def map_values(self, mapper: Any = None, *, store: str | None = None, **fields: Expression) -> Table[K, Any]:
        mapper = arguments.without_context("map_values", mapper)
        operator = MapValues(arguments.function_of_value("map_values", mapper, fields))
        return self._then("map_values", operator, store, value_serde=AUTO)

    def to_stream(self) -> Stream[K, V]:
        """The changes; a row that is gone is a record without a value."""
        return Stream(self._graph, self._graph.add(ToStream(), self._node, table=False))

    def to(self, topic: str, *, key: Serde[Any] | None = None, value: Serde[Any] | None = None) -> None:
        self.to_stream().to(topic, key=key, value=value)

    def suppress(
        self, *, time_limit: Duration | None = None, max_records: int | None = None, store: str | None = None
    ) -> Table[K, V]:
        """Windows show their result once, when they are closed: stream time has passed their end and the grace. With a
        `time_limit` any table shows a row that has changed when stream time is so much later, with its last value; of
        more rows than `max_records` the oldest is shown before."""
        if time_limit is not None:
            limit_ms, most = milliseconds(time_limit, "the time limit of suppress()"), max_records
            arguments.optional_count("suppress", most, "max_records")
            operator = SuppressForTime(f"suppress-{len(self._graph.nodes)}", limit_ms, most)
            return self._then("suppress", operator, store)
        if max_records is not None:
            raise TopologyError(
                "suppress() takes max_records= with time_limit= only: windows are held until they close"
            )
        windows = self._node.windows
        if windows is None:
            name = self._node.name
            raise TopologyError(f"suppress() is for windows, and {name} has none: windowed_by() before, or time_limit=")
        grace_ms = windows.grace_ms
        if isinstance(windows, SessionWindows):
            grace_ms += windows.gap_ms
        if not isinstance(windows, TimeWindows):
            grace_ms += 1  # the end belongs to the window
        name = f"suppress-{len(self._graph.nodes)}"
        return self._then("suppress", Suppress(name, grace_ms), store)

    def group_by(
        self, selector: Callable[[K, V], K2] | Expression, *, key: Serde[Any] | None = None
    ) -> GroupedTable[K2, V]:
        from barnabas.pipelines.streams.grouped import GroupedTable

        graph = self._graph
        operator = GroupTable(arguments.function_or_column("group_by", arguments.without_context("group_by", selector)))
        serde = arguments.optional_serde("group_by", key, "key") or AUTO
        grouped = graph.add(operator, self._node, table=False, keyed=False, key_serde=serde, windows=None)
        return GroupedTable(graph, graph.add(Repartition(), grouped, keyed=True))

    def join(self, other: Table[K, V2], joiner: Callable[[V, V2], V3], *, store: str | None = None) -> Table[K, V3]:
        return self._joined("join", other, joiner, store)

    def left_join(
        self, other: Table[K, V2], joiner: Callable[[V, V2 | None], V3], *, store: str | None = None
    ) -> Table[K, V3]:
        return self._joined("left_join", other, joiner, store)

    def outer_join(
        self, other: Table[K, V2], joiner: Callable[[V | None, V2 | None], V3], *, store: str | None = None
    ) -> Table[K, V3]:
        return self._joined("outer_join", other, joiner, store)

    def join_by(
        self,
        other: Table[K2, V2],
        foreign_key: Callable[[V], K2 | None] | Callable[[K, V], K2 | None] | Expression,
        joiner: Callable[[V, V2], V3],
        *,
        store: str | None = None,
    ) -> Table[K, V3]:
        """By a foreign key: `orders.join_by(customers, lambda order: order["customer"], joiner)`. It is a
        function of the value, or of key and value."""
        return self._joined_by("join_by", other, foreign_key, joiner, store)

    def left_join_by(
        self,
        other: Table[K2, V2],
        foreign_key: Callable[[V], K2 | None] | Callable[[K, V], K2 | None] | Expression,
        joiner: Callable[[V, V2 | None], V3],
        *,
        store: str | None = None,
    ) -> Table[K, V3]:
        return self._joined_by("left_join_by", other, foreign_key, joiner, store)

    def _joined(self, name: str, other: Table[K, Any], joiner: Joiner, store: str | None) -> Table[K, Any]:
        self._check_join(name, other, joiner, store)
        graph, (left, right) = self._graph, OUTER[name]
        stage = max(self._node.stage, other._node.stage)
        mine, theirs = materialized(graph, self._node, stage), materialized(graph, other._node, stage)
        assert mine.store_name is not None
        assert theirs.store_name is not None
        if mine is theirs:
            raise TopologyError(f"{mine.name} is joined with itself: map_values() does it without a join")
        join = JoinTables(f"join-{len(graph.nodes)}", mine.store_name, theirs.store_name, joiner, left, right)
        return Table(graph, named(graph, graph.add(join, mine, theirs, value_serde=AUTO), store))

    def _joined_by(
        self, name: str, other: Table[Any, Any], foreign_key: Any, joiner: Joiner, store: str | None
    ) -> Table[K, Any]:
        self._check_join(name, other, joiner, store)
        foreign_key = arguments.function_of_value(name, arguments.without_context(name, foreign_key))
        graph, number = self._graph, len(self._graph.nodes)
        messages = graph.add(
            Subscribe(f"subscribe-{number}", foreign_key),
            self._node,
            table=False,
            keyed=False,
            key_serde=other._node.key_serde,
        )
        there = graph.add(Repartition(), messages, keyed=True)
        join = JoinByForeignKey(f"subscribers-{number}", f"foreign-{number}", joiner, name == "left_join_by")
        results = graph.add(
            join, there, other._node, table=False, keyed=False, key_serde=self._node.key_serde, value_serde=AUTO
        )
        back = graph.add(Repartition(), results, keyed=True)
        return Table(graph, tabled(graph, back, functools.partial(TableSource, quiet=True), store))

    def _check_join(self, name: str, other: object, joiner: Joiner, store: str | None) -> None:
        if isinstance(other, Stream):
            raise TopologyError(f"{name}() of a table takes a table, not a stream: to_table() makes one of it")
        arguments.one_of(name, other, Table, "a table")
        assert isinstance(other, Table)
        arguments.of_this_topology(name, self._graph, other._graph)
        arguments.function(name, joiner, "left", "right")
        arguments.store_name(name, store)

    def _then(self, name: str, operator: Operator, store: str | None, **facts: Unpack[Facts]) -> Table[Any, Any]:
        arguments.store_name(name, store)
        return Table(self._graph, named(self._graph, self._graph.add(operator, self._node, **facts), store))


class GlobalTable(Generic[K, V]):
    """Every partition has all of it; a stream joins it by any key."""

    def __init__(self, node: GlobalNode) -> None:
        self._node = node
        self.store_name = node.store_name


def tabled(graph: Graph, node: Node, kind: Callable[[str], Operator], store: str | None) -> Node:
    """A table with a store of its own behind a node."""
    name = store or f"table-{len(graph.nodes)}"
    made = graph.add(kind(name), node, table=True, store_name=name)
    if store is not None:
        graph.named_stores.append(NamedStore(store, made, "keys"))
    return made


def materialized(graph: Graph, node: Node, stage: int) -> Node:
    """The table where it is looked up: in a store of that stage."""
    while node.stage < stage:
        moved = [one for one in graph.nodes if one.inputs == (node,) and isinstance(one.operator, Repartition)]
        node = moved[0] if moved else graph.add(Repartition(), node)
    if node.store_name is not None:
        return node
    found = [one for one in graph.nodes if one.inputs == (node,) and isinstance(one.operator, Materialize)]
    return found[0] if found else tabled(graph, node, Materialize, None)


def named(graph: Graph, node: Node, store: str | None) -> Node:
    """The table, and where a name is given a store of that name."""
    if store is None:
        return node
    return tabled(graph, node, Materialize, store)
