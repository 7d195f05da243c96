"""The streams of a topology: `Stream`, and what is made of them.

Functions take key and value. Where a function is wanted, an expression of columns does as well, and where the records
can be read by Spark it is Spark that computes it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from barnabas.pipelines.streams.errors import TopologyError
from barnabas.pipelines.streams.expressions import Computed, Expression
from barnabas.pipelines.streams.graph import Graph, Node
from barnabas.pipelines.streams.operators.operator import OfValue
from barnabas.pipelines.streams.operators.stateless import (
    Branch,
    BranchOutput,
    Filter,
    FlatMap,
    Map,
    MapValues,
    Merge,
    Peek,
    Repartition,
    SelectKey,
    Sink,
    Source,
)
from barnabas.pipelines.streams.operators.streams_join import JoinStreams
from barnabas.pipelines.streams.operators.tables import JoinStreamGlobal, JoinStreamTable, TableSource
from barnabas.pipelines.streams.serdes import AUTO, Serde
from barnabas.pipelines.streams.windows import JoinWindows

if TYPE_CHECKING:
    from barnabas.pipelines.streams.grouped import GroupedStream
    from barnabas.pipelines.streams.tables import GlobalTable, Table

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
V3 = TypeVar("V3")


class Stream(Generic[K, V]):
    def __init__(self, graph: Graph, node: Node) -> None:
        self._graph = graph
        self._node = node

    def filter(self, predicate: Callable[[K, V], Any] | Expression) -> Stream[K, V]:
        return self._then(Filter(function_of(predicate)))

    def filter_not(self, predicate: Callable[[K, V], Any] | Expression) -> Stream[K, V]:
        return self._then(Filter(function_of(predicate), wanted=False))

    def map(self, mapper: Callable[[K, V], tuple[K2, V2]]) -> Stream[K2, V2]:
        return self._then(Map(function_of(mapper)), keyed=False, key_serde=AUTO, value_serde=AUTO)

    @overload
    def map_values(self, mapper: Callable[[V], V2]) -> Stream[K, V2]: ...
    @overload
    def map_values(self, mapper: Callable[[K, V], V2]) -> Stream[K, V2]: ...
    @overload
    def map_values(self, mapper: Expression | None = None, **fields: Expression) -> Stream[K, Any]: ...
    def map_values(self, mapper: Any = None, **fields: Expression) -> Stream[K, Any]:
        """By a function of the value, or of key and value; by a column; or by named columns, which make an object."""
        return self._then(MapValues(value_function(mapper, fields)), value_serde=AUTO)

    def flat_map(self, mapper: Callable[[K, V], Iterable[tuple[K2, V2]]]) -> Stream[K2, V2]:
        return self._then(FlatMap(function_of(mapper)), keyed=False, key_serde=AUTO, value_serde=AUTO)

    @overload
    def flat_map_values(self, mapper: Callable[[V], Iterable[V2]]) -> Stream[K, V2]: ...
    @overload
    def flat_map_values(self, mapper: Callable[[K, V], Iterable[V2]]) -> Stream[K, V2]: ...
    def flat_map_values(self, mapper: Any) -> Stream[K, Any]:
        return self._then(FlatMap(value_function(mapper, {}), values_only=True), value_serde=AUTO)

    def select_key(self, selector: Callable[[K, V], K2] | Expression) -> Stream[K2, V]:
        return self._then(SelectKey(function_of(selector)), keyed=False, key_serde=AUTO)

    def branch(self, *predicates: Callable[[K, V], Any] | Expression) -> list[Stream[K, V]]:
        """One stream for each predicate; a record goes to the first that holds, or to none."""
        if not predicates:
            raise TopologyError("branch() needs at least one predicate")
        parts = self._then(Branch(tuple(map(function_of, predicates))))
        return [parts._then(BranchOutput(number)) for number in range(len(predicates))]

    def merge(self, *others: Stream[K, V]) -> Stream[K, V]:
        nodes = (self._node, *(other._node for other in others))
        same_key = len({id(node.key_serde) for node in nodes}) == 1
        same_value = len({id(node.value_serde) for node in nodes}) == 1
        return Stream(
            self._graph,
            self._graph.add(
                Merge(),
                *nodes,
                keyed=all(node.keyed for node in nodes),
                key_serde=self._node.key_serde if same_key else AUTO,
                value_serde=self._node.value_serde if same_value else AUTO,
            ),
        )

    def peek(self, action: Callable[[K, V], Any]) -> Stream[K, V]:
        return self._then(Peek(function_of(action)))

    def foreach(self, action: Callable[[K, V], Any]) -> None:
        self._then(Peek(function_of(action), ends=True))

    def to(self, topic: str, *, key: Serde[Any] | None = None, value: Serde[Any] | None = None) -> None:
        """Without serdes, records are written as they were read, and what functions made by `AUTO`."""
        if not topic:
            raise TopologyError(f"{self._node.name} is written to a topic without a name")
        node = self._node
        self._then(Sink(topic), key_serde=key or node.key_serde, value_serde=value or node.value_serde)

    def through(self, topic: str, *, key: Serde[K2], value: Serde[V2]) -> Stream[K2, V2]:
        """Written to the topic, and read from there: what comes back comes in a later batch."""
        self.to(topic, key=key, value=value)
        node = self._graph.add(Source((topic,)), key_serde=key, value_serde=value, keyed=True)
        return Stream(self._graph, node)

    def repartition(self, *, key: Serde[Any] | None = None) -> Stream[K, V]:
        """Rows to the partition of their key; `key` says how keys become the bytes that decide where."""
        return self._then(Repartition(), keyed=True, key_serde=key or self._node.key_serde)

    def group_by_key(self) -> GroupedStream[K, V]:
        from barnabas.pipelines.streams.grouped import GroupedStream

        return GroupedStream(self._graph, self._graph.keyed(self._node))

    def group_by(
        self, selector: Callable[[K, V], K2] | Expression, *, key: Serde[Any] | None = None
    ) -> GroupedStream[K2, V]:
        return self.select_key(selector).repartition(key=key).group_by_key()

    def to_table(self, store: str | None = None) -> Table[K, V]:
        from barnabas.pipelines.streams.tables import Table, tabled

        return Table(self._graph, tabled(self._graph, self._graph.keyed(self._node), TableSource, store))

    @overload
    def join(self, other: Stream[K, V2], joiner: Callable[[V, V2], V3], within: JoinWindows) -> Stream[K, V3]: ...
    @overload
    def join(self, other: Table[K, V2], joiner: Callable[[V, V2], V3]) -> Stream[K, V3]: ...
    @overload
    def join(
        self, other: GlobalTable[K2, V2], joiner: Callable[[V, V2], V3], *, key: Callable[[K, V], K2 | None]
    ) -> Stream[K, V3]: ...
    def join(self, other: Any, joiner: Any, within: JoinWindows | None = None, *, key: Any = None) -> Stream[K, Any]:
        """With a stream within a time, with a table by key, or with a global table by the key that a function gives."""
        return self._joined(other, joiner, within, key, (False, False))

    @overload
    def left_join(
        self, other: Stream[K, V2], joiner: Callable[[V, V2 | None], V3], within: JoinWindows
    ) -> Stream[K, V3]: ...
    @overload
    def left_join(self, other: Table[K, V2], joiner: Callable[[V, V2 | None], V3]) -> Stream[K, V3]: ...
    @overload
    def left_join(
        self, other: GlobalTable[K2, V2], joiner: Callable[[V, V2 | None], V3], *, key: Callable[[K, V], K2 | None]
    ) -> Stream[K, V3]: ...
    def left_join(
        self, other: Any, joiner: Any, within: JoinWindows | None = None, *, key: Any = None
    ) -> Stream[K, Any]:
        return self._joined(other, joiner, within, key, (True, False))

    def outer_join(
        self, other: Stream[K, V2], joiner: Callable[[V | None, V2 | None], V3], within: JoinWindows
    ) -> Stream[K, V3]:
        return self._joined(other, joiner, within, None, (True, True))

    def _joined(
        self, other: Any, joiner: Any, within: JoinWindows | None, key: Any, outer: tuple[bool, bool]
    ) -> Stream[K, Any]:
        from barnabas.pipelines.streams.tables import GlobalTable, Table, materialized

        graph, number = self._graph, len(self._graph.nodes)
        if isinstance(other, GlobalTable):
            if key is None:
                raise TopologyError(
                    "a join with a global table needs key=, a function of the record that gives its key"
                )
            operator = JoinStreamGlobal(other.store_name, function_of(key), joiner, outer[0])
            return self._then(operator, value_serde=AUTO)
        if isinstance(other, Table):
            mine = graph.keyed(self._node)
            theirs = materialized(graph, other._node, mine.stage)
            assert theirs.store_name is not None
            node = graph.add(JoinStreamTable(theirs.store_name, joiner, outer[0]), mine, theirs, value_serde=AUTO)
            return Stream(graph, node)
        if within is None:
            raise TopologyError("a join of two streams needs within=, as within(seconds)")
        mine, theirs = graph.keyed(self._node), graph.keyed(other._node)
        join = JoinStreams(f"join-{number}", joiner, within, outer)
        return Stream(graph, graph.add(join, mine, theirs, value_serde=AUTO))

    def _then(self, operator: Any, **facts: Any) -> Stream[Any, Any]:
        return Stream(self._graph, self._graph.add(operator, self._node, **facts))


def function_of(given: Any) -> Any:
    if isinstance(given, Expression):
        return Computed(given)
    if not callable(given):
        raise TopologyError(f"a function of key and value or a column is wanted, not {given!r}")
    return given


def value_function(given: Any, fields: dict[str, Expression]) -> Any:
    """A function of key and value, whatever was given."""
    if fields:
        return Computed(fields=fields)
    if isinstance(given, Expression) or takes_two(given):
        return function_of(given)
    return OfValue(function_of(given))


def takes_two(function: Any) -> bool:
    """Whether it must have two arguments; one of a class or a built-in function is the value."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return len([one for one in parameters if one.kind in positional and one.default is inspect.Parameter.empty]) == 2
