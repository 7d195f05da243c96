"""What was grouped, and how it becomes a table: count, reduce, aggregate and cogroup, in windows or without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from barnabas.pipelines.streams import arguments
from barnabas.pipelines.streams.errors import TopologyError
from barnabas.pipelines.streams.expressions import Aggregate
from barnabas.pipelines.streams.graph import Facts, Graph, NamedStore, Node
from barnabas.pipelines.streams.objects import Folded, Key, Value
from barnabas.pipelines.streams.operators.aggregates import AggregateByKey, AggregateTable
from barnabas.pipelines.streams.operators.folding import Count, Fold, Folding, Reduce, Summary
from barnabas.pipelines.streams.operators.operator import Operator
from barnabas.pipelines.streams.operators.sessions import AggregateBySession
from barnabas.pipelines.streams.operators.sliding import AggregateBySlidingWindow
from barnabas.pipelines.streams.operators.windowed import AggregateByWindow
from barnabas.pipelines.streams.serdes import AUTO
from barnabas.pipelines.streams.tables import Table
from barnabas.pipelines.streams.windows import (
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    Windowed,
    Windows,
    session_windowed,
    time_windowed,
)

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
V2 = TypeVar("V2")
R = TypeVar("R")  # of the keys of tables

DAY_MS = 86_400_000
Aggregator = Callable[[Key, Value, Folded], Folded]


class _Grouped(Generic[K, V]):
    """`retention` of named windows is a day of stream time, as in Kafka Streams: so long they can be asked for."""

    def __init__(self, graph: Graph, nodes: list[Node], windows: Windows | None = None) -> None:
        self._graph = graph
        self._nodes = nodes
        self._windows = windows

    def _aggregated(self, called: str, foldings: list[Folding], store: str | None, emit: str | None) -> Table[Any, Any]:
        graph, windows = self._graph, self._windows
        arguments.store_name(called, store)
        arguments.emit(called, emit)
        name = store or f"{foldings[0].kind}-store-{len(graph.nodes)}"
        key_serde = self._nodes[0].key_serde
        retention_ms = 0 if store is None else DAY_MS
        operator: Operator
        if windows is None:
            operator, shape = AggregateByKey(name, foldings), "keys"
        elif isinstance(windows, SessionWindows):
            operator, shape = AggregateBySession(name, foldings, windows, retention_ms), "sessions"
            key_serde = session_windowed(key_serde)
        elif isinstance(windows, SlidingWindows):
            operator, shape = AggregateBySlidingWindow(name, foldings, windows, retention_ms), "windows"
            key_serde = time_windowed(key_serde, windows.difference_ms)
        else:
            operator, shape = AggregateByWindow(name, foldings, windows, retention_ms), "windows"
            key_serde = time_windowed(key_serde, windows.size_ms)
        facts = Facts(keyed=True, table=True, windows=windows, emit=emit, key_serde=key_serde, value_serde=AUTO)
        node = graph.add(operator, *self._nodes, **facts)
        if windows is None:
            node.store_name = name if type(foldings[0]) is not Summary else None
        if store is not None:
            graph.named_stores.append(NamedStore(store, node, shape))
        return Table(graph, node)


class _Foldable(_Grouped[K, V], Generic[K, V, R]):
    """`emit` says what is shown: "batch" a key once a batch, "changes" a row for every record. Without it the topology
    says so."""

    def count(self, *, store: str | None = None, emit: str | None = None) -> Table[R, int]:
        return self._aggregated("count", [Count()], store, emit)

    def reduce(self, reducer: Callable[[V, V], V], *, store: str | None = None, emit: str | None = None) -> Table[R, V]:
        """The reducer takes what there is and the new value."""
        return self._aggregated("reduce", [Reduce(arguments.function("reduce", reducer, "old", "new"))], store, emit)

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        *,
        merger: Callable[[K, A, A], A] | None = None,
        store: str | None = None,
        emit: str | None = None,
    ) -> Table[R, A]: ...
    @overload
    def aggregate(
        self, *, store: str | None = None, emit: str | None = None, **columns: Aggregate
    ) -> Table[R, dict[str, Any]]: ...
    def aggregate(
        self,
        initializer: Any = None,
        aggregator: Any = None,
        *,
        merger: Any = None,
        store: str | None = None,
        emit: str | None = None,
        **columns: Aggregate,
    ) -> Table[R, Any]:
        """By functions: the initial aggregate, the aggregate with a value, and for sessions two aggregates in one.
        Or by columns: `aggregate(total=col("value.amount").sum(), best=col("value.amount").max())`."""
        if columns:
            if initializer is not None or aggregator is not None:
                raise TopologyError("aggregate() takes functions or columns, not both")
            summary = Summary(arguments.aggregate_columns("aggregate", columns))
            return self._aggregated("aggregate", [summary], store, emit)
        if initializer is None or aggregator is None:
            raise TopologyError("aggregate() needs an initializer and an aggregator, or columns")
        check_merger(self._windows, merger)
        arguments.function("aggregate", initializer)
        arguments.function("aggregate", aggregator, "key", "value", "aggregate")
        return self._aggregated("aggregate", [Fold(initializer, aggregator, merger)], store, emit)


class GroupedStream(_Foldable[K, V, K], Generic[K, V]):
    def __init__(self, graph: Graph, node: Node) -> None:
        super().__init__(graph, [node])

    def windowed_by(self, windows: Windows) -> WindowedStream[K, V]:
        return WindowedStream(self._graph, self._nodes, checked_windows(windows))

    def cogroup(self, aggregator: Callable[[K, V, A], A]) -> CogroupedStream[K, A]:
        return CogroupedStream(self._graph, [(self._nodes[0], checked_aggregator(aggregator))])


class WindowedStream(_Foldable[K, V, Windowed[K]], Generic[K, V]):
    """Its tables have keys in windows: `Windowed(key, start_ms, end_ms)`."""


class CogroupedStream(Generic[K, A]):
    """Several streams into one aggregate, each with its own aggregator."""

    def __init__(self, graph: Graph, parts: list[tuple[Node, Aggregator]], windows: Windows | None = None) -> None:
        self._graph, self._parts, self._windows = graph, parts, windows

    def cogroup(self, other: GroupedStream[K, V2], aggregator: Callable[[K, V2, A], A]) -> CogroupedStream[K, A]:
        arguments.one_of("cogroup", other, GroupedStream, "a grouped stream, as group_by_key() gives it")
        arguments.of_this_topology("cogroup", self._graph, other._graph)
        parts = [*self._parts, (other._nodes[0], checked_aggregator(aggregator))]
        return CogroupedStream(self._graph, parts, self._windows)

    def windowed_by(self, windows: Windows) -> CogroupedStream[K, A]:
        return CogroupedStream(self._graph, self._parts, checked_windows(windows))

    def aggregate(
        self,
        initializer: Callable[[], A],
        *,
        merger: Callable[[K, A, A], A] | None = None,
        store: str | None = None,
        emit: str | None = None,
    ) -> Table[Any, A]:
        check_merger(self._windows, merger)
        arguments.function("aggregate", initializer)
        foldings: list[Folding] = [Fold(initializer, aggregator, merger) for _, aggregator in self._parts]
        grouped: _Grouped[K, Any] = _Grouped(self._graph, [node for node, _ in self._parts], self._windows)
        return grouped._aggregated("aggregate", foldings, store, emit)


class GroupedTable(Generic[K, V]):
    """A table by other keys: what a row was is taken away where it was, what it is is added where it is."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self._graph, self._node = graph, node

    def count(self, *, store: str | None = None, emit: str | None = None) -> Table[K, int]:
        adder, subtractor = (lambda key, value, count: count + 1), (lambda key, value, count: count - 1)
        return self._aggregated(lambda: 0, adder, subtractor, store, emit, any_order=True)

    def reduce(
        self,
        adder: Callable[[V, V], V],
        subtractor: Callable[[V, V], V],
        *,
        store: str | None = None,
        emit: str | None = None,
    ) -> Table[K, V]:
        arguments.function("reduce", adder, "old", "new")
        arguments.function("reduce", subtractor, "old", "gone")

        def nothing() -> Any:
            return None

        def add(key: K, value: V, aggregate: V | None) -> V:
            return value if aggregate is None else adder(aggregate, value)

        def subtract(key: K, value: V, aggregate: V | None) -> Any:
            return None if aggregate is None else subtractor(aggregate, value)

        return self.aggregate(nothing, add, subtract, store=store, emit=emit)

    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A],
        subtractor: Callable[[K, V, A], A],
        *,
        store: str | None = None,
        emit: str | None = None,
    ) -> Table[K, A]:
        arguments.store_name("aggregate", store)
        arguments.function("aggregate", initializer)
        for one in (adder, subtractor):
            arguments.function("aggregate", one, "key", "value", "aggregate")
        return self._aggregated(initializer, adder, subtractor, store, emit)

    def _aggregated(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A],
        subtractor: Callable[[K, V, A], A],
        store: str | None,
        emit: str | None,
        *,
        any_order: bool = False,
    ) -> Table[K, A]:
        arguments.store_name("aggregate", store)
        arguments.emit("aggregate", emit)
        name = store or f"aggregate-store-{len(self._graph.nodes)}"
        operator = AggregateTable(name, initializer, adder, subtractor, any_order)
        node = self._graph.add(operator, self._node, value_serde=AUTO, table=True, store_name=name, emit=emit)
        if store is not None:
            self._graph.named_stores.append(NamedStore(store, node, "keys"))
        return Table(self._graph, node)


def checked_windows(given: Windows) -> Windows:
    kinds = (TimeWindows, SlidingWindows, SessionWindows)
    found: Windows = arguments.one_of("windowed_by", given, kinds, "windows, as tumbling(60_000)")
    return found


def checked_aggregator(given: Aggregator) -> Aggregator:
    found: Aggregator = arguments.function("cogroup", given, "key", "value", "aggregate")
    return found


def check_merger(windows: Windows | None, merger: Callable[[K, A, A], A] | None) -> None:
    if merger is not None:
        arguments.function("aggregate", merger, "key", "one", "other")
    elif isinstance(windows, SessionWindows):
        raise TopologyError("aggregate() of sessions needs merger=, which makes one aggregate of two")
