"""The table of scalar functions: by name, with signatures, what they do, and the Python that does it."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from barnabas.pipelines.sql.compute.signatures import Signature, bind, parse_signature
from barnabas.pipelines.sql.errors import SqlError, nearest
from barnabas.pipelines.sql.types import SqlType

MODULES = ("math", "strings", "collections", "json", "times", "urls", "bytes", "nulls")
Returns = Callable[[list[SqlType]], SqlType]
Call = TypeVar("Call", bound=Callable[..., Any])


@dataclass(frozen=True)
class Variant:
    """One way to call a function. `nulls` says that it wants to see nulls; else one null makes all null. `typed` ones
    get the types of their arguments first."""

    signature: Signature
    call: Callable[..., Any]
    nulls: bool = False
    typed: bool = False
    returns: Returns | None = None


@dataclass
class Function:
    name: str
    category: str
    description: str
    variants: list[Variant] = field(default_factory=list)


FUNCTIONS: dict[str, Function] = {}


def function(
    name: str, *signatures: str, nulls: bool = False, typed: bool = False, returns: Returns | None = None
) -> Callable[[Call], Call]:
    """The docstring is what DESCRIBE FUNCTION shows."""

    def added(call: Call) -> Call:
        category = call.__module__.rpartition(".")[2].upper()
        said = (call.__doc__ or "").strip()
        entry = FUNCTIONS.setdefault(name, Function(name, category, said))
        entry.description = entry.description or said
        for text in signatures:
            entry.variants.append(Variant(parse_signature(text), call, nulls, typed, returns))
        return call

    return added


@functools.cache
def all_functions() -> dict[str, Function]:
    for module in MODULES:
        importlib.import_module(f"barnabas.pipelines.sql.compute.functions.{module}")
    return FUNCTIONS


def find(name: str, known: list[str]) -> Function:
    """`known` are the other names that a call might have meant."""
    found = all_functions().get(name)
    if found is None:
        raise SqlError(f"Can't find any functions with the name '{name}'.{nearest(name, [*FUNCTIONS, *known])}")
    return found


def resolve(entry: Function, given: list[SqlType]) -> tuple[Variant, SqlType]:
    best: tuple[int, Variant, dict[str, SqlType]] | None = None
    for variant in entry.variants:
        match = variant.signature.match(given)
        if match is not None and (best is None or match[0] < best[0]):
            best = (match[0], variant, match[1])
    if best is None:
        ways = "\n".join(f"{entry.name}{one.signature}" for one in entry.variants)
        shown = ", ".join(map(str, given))
        raise SqlError(
            f"Function '{entry.name}' does not accept parameters ({shown}).\nValid alternatives are:\n{ways}"
        )
    _, variant, bound = best
    return variant, variant.returns(given) if variant.returns else bind(variant.signature.returns, bound)
