"""Nulls, and values that are keys too."""

from __future__ import annotations

from typing import Any

from barnabas.pipelines.sql.compute.registry import function


@function("AS_VALUE", "T -> T", nulls=True)
def as_value(value: Any) -> Any:
    """A key column as a column of the value."""
    return value


@function("COALESCE", "T, T* -> T", nulls=True)
def coalesce(*values: Any) -> Any:
    """The first value that is not null."""
    return next((one for one in values if one is not None), None)


@function("IFNULL", "T, T -> T", nulls=True)
def if_null(value: Any, otherwise: Any) -> Any:
    """A value, or another one where it is null."""
    return otherwise if value is None else value


@function("NULLIF", "T, T -> T", nulls=True)
def null_if(value: Any, unwanted: Any) -> Any:
    """A value, or null where it is equal to another one."""
    return None if value == unwanted else value
