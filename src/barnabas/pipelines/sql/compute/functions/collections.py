"""Arrays and maps. TRANSFORM, FILTER and REDUCE are in `lambdas`: they take functions."""

from __future__ import annotations

from typing import Any

from barnabas.pipelines.sql.compute.java import EvaluationError, frozen, text_of
from barnabas.pipelines.sql.compute.registry import function
from barnabas.pipelines.sql.types import STRING, SqlType, array, struct


def _first_of_each(values: list[Any]) -> list[Any]:
    seen: dict[Any, Any] = {}
    for one in values:
        seen.setdefault(frozen(one), one)
    return list(seen.values())


@function("ARRAY_CONCAT", "ARRAY<T>, ARRAY<T> -> ARRAY<T>", nulls=True)
def array_concat(left: list[Any] | None, right: list[Any] | None) -> list[Any] | None:
    """Two arrays one behind the other."""
    return None if left is None and right is None else [*(left or ()), *(right or ())]


@function("ARRAY_CONTAINS", "ARRAY<T>, T -> BOOLEAN", nulls=True)
def array_contains(values: list[Any] | None, wanted: Any) -> bool:
    """Whether a value is in an array."""
    return values is not None and any(one == wanted and (one is None) == (wanted is None) for one in values)


@function("ARRAY_DISTINCT", "ARRAY<T> -> ARRAY<T>")
def array_distinct(values: list[Any]) -> list[Any]:
    """Each value of an array once, in the order of their first occurrence."""
    return _first_of_each(values)


@function("ARRAY_EXCEPT", "ARRAY<T>, ARRAY<T> -> ARRAY<T>")
def array_except(left: list[Any], right: list[Any]) -> list[Any]:
    """The values of one array that are not in another, each once."""
    gone = {frozen(one) for one in right}
    return [one for one in _first_of_each(left) if frozen(one) not in gone]


@function("ARRAY_INTERSECT", "ARRAY<T>, ARRAY<T> -> ARRAY<T>")
def array_intersect(left: list[Any], right: list[Any]) -> list[Any]:
    """The values that two arrays have in common, each once."""
    there = {frozen(one) for one in right}
    return [one for one in _first_of_each(left) if frozen(one) in there]


@function("ARRAY_UNION", "ARRAY<T>, ARRAY<T> -> ARRAY<T>")
def array_union(left: list[Any], right: list[Any]) -> list[Any]:
    """The values of two arrays, each once."""
    return _first_of_each([*left, *right])


@function("ARRAY_JOIN", "ARRAY<T>, STRING? -> STRING", nulls=True)
def array_join(values: list[Any] | None, delimiter: str | None = ",") -> str | None:
    """The values of an array as text, with a delimiter between them."""
    return None if values is None else (delimiter or "").join(text_of(one) for one in values)


@function("ARRAY_LENGTH", "ARRAY<T> -> INTEGER")
def array_length(values: list[Any]) -> int:
    """How many values an array has."""
    return len(values)


@function("ARRAY_MAX", "ARRAY<T> -> T")
def array_max(values: list[Any]) -> Any:
    """The greatest value of an array."""
    return max((one for one in values if one is not None), default=None)


@function("ARRAY_MIN", "ARRAY<T> -> T")
def array_min(values: list[Any]) -> Any:
    """The least value of an array."""
    return min((one for one in values if one is not None), default=None)


@function("ARRAY_REMOVE", "ARRAY<T>, T -> ARRAY<T>", nulls=True)
def array_remove(values: list[Any] | None, gone: Any) -> list[Any] | None:
    """An array without a value."""
    return None if values is None else [one for one in values if frozen(one) != frozen(gone)]


@function("ARRAY_SORT", "ARRAY<T>, STRING? -> ARRAY<T>")
def array_sort(values: list[Any], direction: str = "ASC") -> list[Any] | None:
    """An array in order, 'ASC' or 'DESC'; nulls are last."""
    word = direction.strip().upper()
    if word not in ("ASC", "ASCENDING", "DESC", "DESCENDING"):
        return None
    there = sorted((one for one in values if one is not None), reverse=word.startswith("DESC"))
    return [*there, *[None] * (len(values) - len(there))]


@function("AS_MAP", "ARRAY<STRING>, ARRAY<V> -> MAP<STRING,V>")
def as_map(keys: list[str], values: list[Any]) -> dict[str, Any]:
    """Two arrays as the keys and values of a map."""
    return dict(zip(keys, values, strict=False))


@function("ELT", "INTEGER, STRING* -> STRING", nulls=True)
def elt(number: int | None, *values: str | None) -> str | None:
    """One of several texts by its number, from 1."""
    return values[number - 1] if number is not None and 1 <= number <= len(values) else None


@function("FIELD", "STRING, STRING* -> INTEGER", nulls=True)
def field(wanted: str | None, *values: str | None) -> int:
    """The number of a text among several, from 1, or 0."""
    return 0 if wanted is None or wanted not in values else values.index(wanted) + 1


@function(
    "GENERATE_SERIES", "INTEGER, INTEGER, INTEGER? -> ARRAY<INTEGER>", "BIGINT, BIGINT, INTEGER? -> ARRAY<BIGINT>"
)
def generate_series(first: int, last: int, step: int | None = None) -> list[int]:
    """Numbers from one to another, both included."""
    by = step if step is not None else (1 if last >= first else -1)
    if by == 0 or (last - first) * by < 0:
        raise EvaluationError(f"GENERATE_SERIES step has wrong sign: {by} from {first} to {last}")
    return list(range(first, last + (1 if by > 0 else -1), by))


@function("MAP_KEYS", "MAP<K,V> -> ARRAY<K>")
def map_keys(values: dict[Any, Any]) -> list[Any]:
    """The keys of a map."""
    return list(values)


@function("MAP_VALUES", "MAP<K,V> -> ARRAY<V>")
def map_values(values: dict[Any, Any]) -> list[Any]:
    """The values of a map."""
    return list(values.values())


@function("MAP_UNION", "MAP<K,V>, MAP<K,V> -> MAP<K,V>", nulls=True)
def map_union(left: dict[Any, Any] | None, right: dict[Any, Any] | None) -> dict[Any, Any] | None:
    """Two maps in one; the second one wins."""
    return None if left is None and right is None else {**(left or {}), **(right or {})}


@function("SLICE", "ARRAY<T>, INTEGER, INTEGER -> ARRAY<T>", nulls=True)
def slice_of(values: list[Any] | None, first: int | None, last: int | None) -> list[Any] | None:
    """A part of an array, from one position to another, both included."""
    if values is None:
        return None
    return values[max((first or 1) - 1, 0) : len(values) if last is None else max(last, 0)]


def entry_types(kinds: list[SqlType]) -> SqlType:
    return array(struct(("K", STRING), ("V", kinds[0].element or STRING)))


@function("ENTRIES", "MAP<STRING,V>, BOOLEAN -> ARRAY<V>", returns=entry_types)
def entries(values: dict[str, Any], ordered: bool) -> list[dict[str, Any]]:
    """The entries of a map as structs of K and V, in the order of keys if that is wanted."""
    return [{"K": key, "V": values[key]} for key in (sorted(values) if ordered else values)]
