"""The streams of a topology: `Stream`, and what is made of them.

Functions take key and value. Where a function is wanted, an expression of columns does as well, and where the records
can be read by Spark it is Spark that computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from barnabas.pipelines.streams import arguments
from barnabas.pipelines.streams.errors import TopologyError
from barnabas.pipelines.streams.expressions import Expression
from barnabas.pipelines.streams.graph import Facts, Graph, NamedStore, Node
from barnabas.pipelines.streams.operators.operator import Joiner, Operator
from barnabas.pipelines.streams.operators.process import Process
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
from barnabas.pipelines.streams.processors import Processor
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

OUTER = {"join": (False, False), "left_join": (True, False), "outer_join": (True, True)}  # which sides stay alone


class Stream(Generic[K, V]):
    def __init__(self, graph: Graph, node: Node) -> None:
        self._graph = graph
        self._node = node

    def filter(self, predicate: Callable[[K, V], Any] | Expression) -> Stream[K, V]:
        return self._then(Filter(arguments.function_or_column("filter", predicate)))

    def filter_not(self, predicate: Callable[[K, V], Any] | Expression) -> Stream[K, V]:
        return self._then(Filter(arguments.function_or_column("filter_not", predicate), wanted=False))

    def map(self, mapper: Callable[[K, V], tuple[K2, V2]]) -> Stream[K2, V2]:
        operator = Map(arguments.function("map", mapper, *arguments.RECORD))
        return self._then(operator, keyed=False, key_serde=AUTO, value_serde=AUTO)

    @overload
    def map_values(self, mapper: Callable[[V], V2]) -> Stream[K, V2]: ...
    @overload
    def map_values(self, mapper: Callable[[K, V], V2]) -> Stream[K, V2]: ...
    @overload
    def map_values(self, mapper: Expression | None = None, **fields: Expression) -> Stream[K, Any]: ...
    def map_values(self, mapper: Any = None, **fields: Expression) -> Stream[K, Any]:
        """By a function of the value, or of key and value; by a column; or by named columns, which make an object."""
        return self._then(MapValues(arguments.function_of_value("map_values", mapper, fields)), value_serde=AUTO)

    def flat_map(self, mapper: Callable[[K, V], Iterable[tuple[K2, V2]]]) -> Stream[K2, V2]:
        operator = FlatMap(arguments.function("flat_map", mapper, *arguments.RECORD))
        return self._then(operator, keyed=False, key_serde=AUTO, value_serde=AUTO)

    @overload
    def flat_map_values(self, mapper: Callable[[V], Iterable[V2]]) -> Stream[K, V2]: ...
    @overload
    def flat_map_values(self, mapper: Callable[[K, V], Iterable[V2]]) -> Stream[K, V2]: ...
    def flat_map_values(self, mapper: Any) -> Stream[K, Any]:
        operator = FlatMap(arguments.function_of_value("flat_map_values", mapper), values_only=True)
        return self._then(operator, value_serde=AUTO)

    def select_key(self, selector: Callable[[K, V], K2] | Expression) -> Stream[K2, V]:
        operator = SelectKey(arguments.function_or_column("select_key", selector))
        return self._then(operator, keyed=False, key_serde=AUTO)

    def branch(self, *predicates: Callable[[K, V], Any] | Expression) -> list[Stream[K, V]]:
        """One stream for each predicate; a record goes to the first that holds, or to none."""
        if not predicates:
            raise TopologyError("branch() needs at least one predicate")
        functions = tuple(arguments.function_or_column("branch", one) for one in predicates)
        parts = self._then(Branch(functions))
        return [parts._then(BranchOutput(number)) for number in range(len(predicates))]

    def merge(self, *others: Stream[K, V]) -> Stream[K, V]:
        for other in others:
            arguments.one_of("merge", other, Stream, "streams")
            arguments.of_this_topology("merge", self._graph, other._graph)
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
        return self._then(Peek(arguments.function("peek", action, *arguments.RECORD)))

    def foreach(self, action: Callable[[K, V], Any]) -> None:
        self._then(Peek(arguments.function("foreach", action, *arguments.RECORD), ends=True))

    def process(self, supplier: Callable[[], Processor], *, stores: Iterable[str] = ()) -> Stream[Any, Any]:
        """By a processor: `supplier` is its class, or a function that makes one, for each partition and each batch. Its
        stores are kept by partition: where keys were changed before, repartition() brings records to theirs."""
        return self._processed("process", supplier, stores, keyed=False, key_serde=AUTO, value_serde=AUTO)

    def process_values(self, supplier: Callable[[], Processor], *, stores: Iterable[str] = ()) -> Stream[K, Any]:
        """The same, for processors that leave keys as they are."""
        return self._processed("process_values", supplier, stores, value_serde=AUTO)

    def _processed(
        self, name: str, supplier: Callable[[], Processor], stores: Iterable[str], **facts: Unpack[Facts]
    ) -> Stream[Any, Any]:
        arguments.function(name, supplier)
        given = [stores] if isinstance(stores, str) else list(stores)
        names = tuple(arguments.store_name(name, one) or "" for one in given)
        operator = Process(supplier, names, f"process-{len(self._graph.nodes)}", name == "process_values")
        made = self._then(operator, **facts)
        self._graph.named_stores.extend(NamedStore(one, made._node, "keys") for one in names)
        return made

    def to(self, topic: str, *, key: Serde[Any] | None = None, value: Serde[Any] | None = None) -> None:
        """Without serdes, records are written as they were read, and what functions made by `AUTO`."""
        arguments.topic("to", topic)
        key_serde = arguments.optional_serde("to", key, "key", topic) or self._node.key_serde
        value_serde = arguments.optional_serde("to", value, "value", topic) or self._node.value_serde
        self._then(Sink(topic), key_serde=key_serde, value_serde=value_serde)

    @overload
    def through(self, topic: str) -> Stream[K, V]: ...
    @overload
    def through(self, topic: str, *, key: Serde[K2]) -> Stream[K2, V]: ...
    @overload
    def through(self, topic: str, *, value: Serde[V2]) -> Stream[K, V2]: ...
    @overload
    def through(self, topic: str, *, key: Serde[K2], value: Serde[V2]) -> Stream[K2, V2]: ...
    def through(
        self, topic: str, *, key: Serde[Any] | None = None, value: Serde[Any] | None = None
    ) -> Stream[Any, Any]:
        """Written to the topic, and read from there: what comes back comes in a later batch. What functions made needs
        a serde, because it is read again."""
        arguments.topic("through", topic)
        serdes = {
            "key": arguments.optional_serde("through", key, "key", topic) or self._node.key_serde,
            "value": arguments.optional_serde("through", value, "value", topic) or self._node.value_serde,
        }
        for which, serde in serdes.items():
            if serde is AUTO:
                raise TopologyError(f"through() needs a serde for {which}=: a function made it, and it is read again")
        self.to(topic, key=serdes["key"], value=serdes["value"])
        node = self._graph.add(Source((topic,)), key_serde=serdes["key"], value_serde=serdes["value"], keyed=True)
        return Stream(self._graph, node)

    def repartition(self, *, key: Serde[Any] | None = None) -> Stream[K, V]:
        """Rows to the partition of their key; `key` says how keys become the bytes that decide where."""
        serde = arguments.optional_serde("repartition", key, "key") or self._node.key_serde
        return self._then(Repartition(), keyed=True, key_serde=serde)

    def group_by_key(self) -> GroupedStream[K, V]:
        from barnabas.pipelines.streams.grouped import GroupedStream

        return GroupedStream(self._graph, self._graph.keyed(self._node))

    def group_by(
        self, selector: Callable[[K, V], K2] | Expression, *, key: Serde[Any] | None = None
    ) -> GroupedStream[K2, V]:
        selector = arguments.function_or_column("group_by", selector)
        serde = arguments.optional_serde("group_by", key, "key")
        return self.select_key(selector).repartition(key=serde).group_by_key()

    def to_table(self, store: str | None = None) -> Table[K, V]:
        from barnabas.pipelines.streams.tables import Table, tabled

        arguments.store_name("to_table", store)
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
        return self._joined("join", other, joiner, within, key)

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
        return self._joined("left_join", other, joiner, within, key)

    def outer_join(
        self, other: Stream[K, V2], joiner: Callable[[V | None, V2 | None], V3], within: JoinWindows
    ) -> Stream[K, V3]:
        return self._joined("outer_join", other, joiner, within, None)

    def _joined(
        self,
        name: str,
        other: Stream[Any, Any] | Table[Any, Any] | GlobalTable[Any, Any],
        joiner: Joiner,
        within: JoinWindows | None,
        key: Callable[[K, V], Any] | None,
    ) -> Stream[K, Any]:
        from barnabas.pipelines.streams.tables import GlobalTable, Table

        outer = OUTER[name]
        if outer[1]:
            arguments.one_of(name, other, Stream, "a stream")
        arguments.one_of(name, other, (Stream, Table, GlobalTable), "a stream, a table or a global table")
        arguments.function(name, joiner, "left", "right")
        if within is not None and not isinstance(other, Stream):
            raise TopologyError(f"{name}() takes within= with a stream only")
        if key is not None and not isinstance(other, GlobalTable):
            raise TopologyError(f"{name}() takes key= with a global table only: select_key() gives records other keys")
        if isinstance(other, GlobalTable):
            return self._joined_global(name, other, joiner, key, outer[0])
        arguments.of_this_topology(name, self._graph, other._graph)
        if isinstance(other, Table):
            return self._joined_table(other, joiner, outer[0])
        return self._joined_stream(name, other, joiner, within, outer)

    def _joined_global(
        self,
        name: str,
        other: GlobalTable[Any, Any],
        joiner: Joiner,
        key: Callable[[K, V], Any] | None,
        left: bool,
    ) -> Stream[K, Any]:
        if key is None:
            raise TopologyError(
                f"{name}() with a global table needs key=, a function of key and value that gives the table's key"
            )
        known = next((one for one in self._graph.global_tables if one.store_name == other.store_name), None)
        arguments.of_this_topology(name, known, other._node)
        selector = arguments.function_or_column(name, arguments.without_context(name, key))
        return self._then(JoinStreamGlobal(other.store_name, selector, joiner, left), value_serde=AUTO)

    def _joined_table(self, other: Table[Any, Any], joiner: Joiner, left: bool) -> Stream[K, Any]:
        from barnabas.pipelines.streams.tables import materialized

        graph = self._graph
        mine = graph.keyed(self._node)
        theirs = materialized(graph, other._node, mine.stage)
        assert theirs.store_name is not None
        node = graph.add(JoinStreamTable(theirs.store_name, joiner, left), mine, theirs, value_serde=AUTO)
        return Stream(graph, node)

    def _joined_stream(
        self,
        name: str,
        other: Stream[Any, Any],
        joiner: Joiner,
        within: JoinWindows | None,
        outer: tuple[bool, bool],
    ) -> Stream[K, Any]:
        if not isinstance(within, JoinWindows):
            said = "" if within is None else f", not {within!r}"
            raise TopologyError(
                f"{name}() of two streams needs within=, as within(5000) or within(timedelta(seconds=5)){said}"
            )
        graph, number = self._graph, len(self._graph.nodes)
        mine, theirs = graph.keyed(self._node), graph.keyed(other._node)
        join = JoinStreams(f"join-{number}", joiner, within, outer)
        return Stream(graph, graph.add(join, mine, theirs, value_serde=AUTO))

    def _then(self, operator: Operator, **facts: Unpack[Facts]) -> Stream[Any, Any]:
        return Stream(self._graph, self._graph.add(operator, self._node, **facts))
