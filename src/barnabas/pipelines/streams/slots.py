"""JSON of which only columns are read: the fields they name, into slots, checked against the schema.

A dictionary of all fields takes more than twice as long. The rest of a value is skipped; where a value goes to a topic
unchanged, its bytes do.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import msgspec

from barnabas.pipelines.streams.expressions import ATTRIBUTES, Computed
from barnabas.pipelines.streams.graph import Graph, Node
from barnabas.pipelines.streams.operators.aggregates import AggregateByKey
from barnabas.pipelines.streams.operators.folding import Count, Folding, Summary
from barnabas.pipelines.streams.operators.stateless import Filter, MapValues, SelectKey, Sink, Source
from barnabas.pipelines.streams.operators.windowed import AggregateByWindow
from barnabas.pipelines.streams.serdes import Serde, SerdeError

if TYPE_CHECKING:
    import pyarrow as pa

KINDS: dict[str, Any] = {
    **dict.fromkeys(("byte", "tinyint", "short", "smallint", "int", "integer", "long", "bigint"), int),
    **dict.fromkeys(("float", "real", "double"), float),
    "boolean": bool,
    "string": str,
}


def slotted(graph: Graph, source: Node) -> Serde[Any]:
    """The serde of a source's values; one that reads slots if columns alone look at them."""
    serde = source.value_serde
    if serde.name != "json" or serde.schema is None:
        return serde
    paths = paths_read(graph, source)
    if paths is None or "value" in paths:
        return serde
    wanted = tuple(sorted({path.split(".")[1] for path in paths if path.startswith("value.")}))
    if not wanted or not set(wanted) <= kinds_of(serde.schema).keys():
        return serde
    read = functools.partial(read_slots, serde.schema, wanted)
    read_all = functools.partial(read_all_slots, serde.schema, wanted)
    return Serde(serde.name, serde.encode, read, serde.schema, read_all, serde.encode_all)


def paths_read(graph: Graph, above: Node) -> list[str] | None:
    """What columns at a node or behind it read of its values; None if somebody else looks at them."""
    found: list[str] = []
    if isinstance(above.operator, Source) and above.operator.timestamp is not None:
        if not isinstance(above.operator.timestamp, Computed):
            return None
        found += above.operator.timestamp.paths()
    for node in graph.consumers(above):
        operator = node.operator
        if isinstance(operator, (Filter, MapValues, SelectKey)) and isinstance(operator.function, Computed):
            found += operator.function.paths()
            behind = [] if isinstance(operator, MapValues) else paths_read(graph, node)
        elif isinstance(operator, (AggregateByKey, AggregateByWindow)) and len(operator.foldings) == 1:
            behind = paths_folded(operator.foldings[0])
        else:
            behind = [] if isinstance(operator, Sink) and node.value_serde is above.value_serde else None
        if behind is None:
            return None
        found += behind
    return found


def paths_folded(folding: Folding) -> list[str] | None:
    if isinstance(folding, Summary):
        return [path for one in folding.wanted.values() for path in one.computed.paths()]
    return [] if isinstance(folding, Count) else None


@functools.cache
def kinds_of(schema: str) -> dict[str, Any]:
    """The fields of a schema in Spark's words; those of types that are made of others are taken as they come."""
    found: dict[str, Any] = {}
    depth, field = 0, ""
    for letter in schema + ",":
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            name, _, kind = field.strip().partition(":" if ":" in field.split("<")[0] else " ")
            words = kind.strip().lower().split()
            found[name.strip().strip("`")] = KINDS.get(words[0], Any) if words else Any
            field = ""
        else:
            field += letter
    return found


@functools.cache
def decoder_of(schema: str, wanted: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    kinds = kinds_of(schema)
    attributes = {name: f"slot{number}" for number, name in enumerate(wanted)}
    made = msgspec.defstruct(
        "Slots",
        [(slot, kinds[name] | None if kinds[name] is not Any else Any, None) for name, slot in attributes.items()],
        rename={slot: name for name, slot in attributes.items()},
        namespace={ATTRIBUTES: attributes},
        gc=False,
    )
    return msgspec.json.Decoder(made | None)


def read_slots(schema: str, wanted: tuple[str, ...], data: bytes) -> Any:
    try:
        return decoder_of(schema, wanted).decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SerdeError(f"it is no JSON that fits {schema}: {error}") from None


def read_all_slots(schema: str, wanted: tuple[str, ...], column: pa.Array) -> list[Any]:
    decode = decoder_of(schema, wanted).decode
    if column.null_count:
        return [None if data is None else decode(data) for data in column.to_pylist()]
    return list(map(decode, column.to_pylist()))
