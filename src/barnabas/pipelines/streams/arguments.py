"""What operators are given, checked where it is written: a mistake is told in a sentence that names the operator."""

from __future__ import annotations

import inspect
import re
from typing import Any

from barnabas.pipelines.streams.context import WithContext
from barnabas.pipelines.streams.errors import TopologyError
from barnabas.pipelines.streams.expressions import Aggregate, Computed, Expression
from barnabas.pipelines.streams.graph import BATCH, CHANGES
from barnabas.pipelines.streams.operators.operator import OfValue
from barnabas.pipelines.streams.serdes import Serde

NAME_LENGTH_MAX = 249
_legal = re.compile(r"[a-zA-Z0-9._-]+").fullmatch
RECORD = ("key", "value")


def function(operator: str, given: Any, *arguments: str) -> Any:
    """A function that can be called with so many arguments, or where it is one of key and value of the context too."""
    if isinstance(given, WithContext):
        if arguments != RECORD:
            raise TopologyError(
                f"{operator}() needs {described(arguments)}: with_context() is for functions of streams"
            )
        return with_context(operator, given)
    if isinstance(given, Expression) or not callable(given):
        raise TopologyError(f"{operator}() needs {described(arguments)}, not {given!r}")
    if not takes(given, len(arguments)):
        raise TopologyError(f"{operator}() needs {described(arguments)}, not {signature_of(given)}")
    return given


def function_or_column(operator: str, given: Any) -> Any:
    """Of key and value."""
    if isinstance(given, Expression):
        return Computed(given)
    if not callable(given):
        raise TopologyError(f"{operator}() needs {described(RECORD)} or a column, not {given!r}")
    return function(operator, given, *RECORD)


def function_of_value(operator: str, given: Any, fields: dict[str, Any] | None = None) -> Any:
    """A function of key and value, whether one was given, or one of the value, a column, or named columns."""
    if fields:
        if given is not None:
            raise TopologyError(f"{operator}() takes a function or named columns, not both")
        for name, one in fields.items():
            if not isinstance(one, Expression):
                raise TopologyError(f"{operator}() needs a column for {name}=, as col('value.{name}'), not {one!r}")
        return Computed(fields=fields)
    if isinstance(given, Expression):
        return Computed(given)
    if not callable(given):
        raise TopologyError(f"{operator}() needs a function of the value, or of key and value, not {given!r}")
    if isinstance(given, WithContext):
        return with_context(operator, given)
    if must_have_two(given):
        return given
    if not takes(given, 1):
        raise TopologyError(
            f"{operator}() needs a function of the value, or of key and value, not {signature_of(given)}"
        )
    return OfValue(given)


def timestamp(operator: str, given: Any) -> Any:
    """A function of the value, of key and value, or of the context besides, or a column; None if there is none."""
    return None if given is None else function_of_value(f"timestamp= of {operator}", given)


def with_context(operator: str, given: WithContext) -> WithContext:
    if not takes(given.function, 3):
        raise TopologyError(
            f"{operator}(with_context()) needs a function of key, value and context, not {signature_of(given.function)}"
        )
    return given


def without_context(operator: str, given: Any) -> Any:
    """Of a table: its rows are asked about again when they are gone, without the record."""
    if isinstance(given, WithContext):
        raise TopologyError(f"{operator}() of a table has no context: with_context() is for functions of streams")
    return given


def described(arguments: tuple[str, ...]) -> str:
    if not arguments:
        return "a function without arguments"
    *first, last = arguments
    return f"a function of {', '.join(first)} and {last}" if first else f"a function of {last}"


def takes(given: Any, count: int) -> bool:
    """Whether it can be called so; of built-in functions that do not tell it is believed."""
    try:
        signature = inspect.signature(given)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def must_have_two(given: Any) -> bool:
    """Whether it must have two arguments; one of a class or a built-in function is the value."""
    try:
        parameters = inspect.signature(given).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return len([one for one in parameters if one.kind in positional and one.default is inspect.Parameter.empty]) == 2


def signature_of(given: Any) -> str:
    name = getattr(given, "__name__", type(given).__name__)
    return f"{'lambda' if name == '<lambda>' else name}{inspect.signature(given)}"


def aggregate_columns(operator: str, columns: dict[str, Any]) -> dict[str, Aggregate]:
    for name, one in columns.items():
        if not isinstance(one, Aggregate):
            raise TopologyError(
                f"{operator}() needs an aggregate of a column for {name}=, as col('value.{name}').sum(), not {one!s}"
            )
    return columns


def one_of(operator: str, given: Any, kinds: type | tuple[type, ...], wanted: str) -> Any:
    if not isinstance(given, kinds):
        said = f"a {type(given).__name__}" if type(given).__module__.startswith("barnabas.") else repr(given)
        raise TopologyError(f"{operator}() takes {wanted}, not {said}")
    return given


def of_this_topology(operator: str, mine: Any, other: Any) -> None:
    if mine is not other:
        raise TopologyError(f"{operator}() takes what belongs to the same topology")


def serde(operator: str, given: Any, which: str, topic: str | None = None) -> Any:
    """For the topic that is read or written, if there is one."""
    if not isinstance(given, Serde):
        raise TopologyError(f"{operator}() needs a serde for {which}=, as STRING or JSON, not {given!r}")
    return given if given.on is None or topic is None else given.on(topic, which == "key")


def optional_serde(operator: str, given: Any, which: str, topic: str | None = None) -> Any:
    return None if given is None else serde(operator, given, which, topic)


def topic(operator: str, given: Any) -> str:
    if not isinstance(given, str) or not given:
        raise TopologyError(f"{operator}() needs the name of a topic, not {given!r}")
    if reason := unfit(given):
        raise TopologyError(f"{operator}() can't have a topic named {given!r}: {reason}")
    return given


def store_name(operator: str, given: Any) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str) or not given:
        raise TopologyError(f"{operator}() needs a name for store=, not {given!r}")
    if reason := unfit(given):
        raise TopologyError(f"{operator}() can't have a store named {given!r}: {reason}")
    return given


def emit(operator: str, given: Any) -> str | None:
    if given not in (None, BATCH, CHANGES):
        raise TopologyError(f"{operator}() takes emit='{BATCH}' or emit='{CHANGES}', not {given!r}")
    return None if given is None else str(given)


def milliseconds(operator: str, given: Any) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise TopologyError(f"{operator}() has run_on_ms {given!r}: it is a whole number of milliseconds, 0 or more")
    return given


def optional_count(operator: str, given: Any, name: str) -> None:
    if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 1):
        raise TopologyError(f"{operator}() has {name} {given!r}: it is a whole number, 1 or more")


def unfit(name: str) -> str | None:
    """Why it is no name of a topic, and of nothing else that becomes a part of one or of a path."""
    if name in (".", ".."):
        return "it stands for a directory"
    if len(name) > NAME_LENGTH_MAX:
        return f"it has more than {NAME_LENGTH_MAX} characters"
    return None if _legal(name) else "only letters, digits, '.', '_' and '-' may be in it"
