"""Mathematics."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any

from barnabas.pipelines.sql.compute import java
from barnabas.pipelines.sql.compute.registry import function
from barnabas.pipelines.sql.types import SqlType, common, decimal

EARTH_KM, EARTH_MILES = 6371.0, 3959.0


def real(name: str, compute: Callable[[float], float], said: str) -> None:
    def call(value: float) -> float:
        try:
            return compute(float(value))
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    call.__doc__ = said
    call.__module__ = __name__
    function(name, "DOUBLE -> DOUBLE")(call)


def cot(value: float) -> float:
    tangent = math.tan(value)
    return math.inf if tangent == 0 else 1 / tangent


def natural_log(value: float) -> float:
    return -math.inf if value == 0 else math.log(value)


def sinh(value: float) -> float:
    try:
        return math.sinh(value)
    except OverflowError:
        return math.copysign(math.inf, value)


for _name, _compute, _said in (
    ("ACOS", math.acos, "The angle whose cosine this is."),
    ("ASIN", math.asin, "The angle whose sine this is."),
    ("ATAN", math.atan, "The angle whose tangent this is."),
    ("CBRT", lambda x: math.copysign(abs(x) ** (1 / 3), x) if round(x) != x else _whole_root(x), "The cube root."),
    ("COS", math.cos, "The cosine of an angle in radians."),
    ("COSH", math.cosh, "The hyperbolic cosine."),
    ("COT", cot, "The cotangent of an angle in radians."),
    ("DEGREES", math.degrees, "Radians in degrees."),
    ("EXP", math.exp, "e to the power of a number."),
    ("LN", natural_log, "The natural logarithm."),
    ("RADIANS", math.radians, "Degrees in radians."),
    ("SIN", math.sin, "The sine of an angle in radians."),
    ("SINH", sinh, "The hyperbolic sine."),
    ("SQRT", math.sqrt, "The square root."),
    ("TAN", math.tan, "The tangent of an angle in radians."),
    ("TANH", math.tanh, "The hyperbolic tangent."),
):
    real(_name, _compute, _said)


def _whole_root(value: float) -> float:
    near = math.copysign(round(abs(value) ** (1 / 3)), value)
    return near if near**3 == value else math.copysign(abs(value) ** (1 / 3), value)


@function("ABS", "INTEGER -> INTEGER", "BIGINT -> BIGINT", "DOUBLE -> DOUBLE")
def absolute(value: Any) -> Any:
    """The number without its sign."""
    return value if value == -(1 << 31) or value == -(1 << 63) else abs(value)


@function("ABS", "DECIMAL -> DECIMAL", returns=lambda kinds: kinds[0])
def absolute_decimal(value: Decimal) -> Decimal:
    return value.copy_abs()


@function("ATAN2", "DOUBLE, DOUBLE -> DOUBLE")
def atan2(y: float, x: float) -> float:
    """The angle of a point given by y and x."""
    return math.atan2(y, x)


@function("PI", "-> DOUBLE")
def pi() -> float:
    """The ratio of a circle's circumference to its diameter."""
    return math.pi


@function("RANDOM", "-> DOUBLE")
def any_number() -> float:
    """A number from 0 to 1."""
    return random.random()


@function("POWER", "DOUBLE, DOUBLE -> DOUBLE")
def power(base: float, exponent: float) -> float:
    """A number to the power of another."""
    try:
        found = float(base) ** float(exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ZeroDivisionError:
        return math.inf
    return math.nan if isinstance(found, complex) else found


@function("LOG", "DOUBLE, DOUBLE? -> DOUBLE")
def log(first: float, second: float | None = None) -> float:
    """The logarithm of a value: LOG(value), natural, or LOG(base, value)."""
    base, value = (math.e, first) if second is None else (first, second)
    if base <= 0 or base == 1 or value < 0 or base != base or value != value:
        return math.nan
    if value == 0:
        return -math.inf if base > 1 else math.inf
    return math.log(value) if second is None else math.log(value) / math.log(base)


@function("SIGN", "NUM -> INTEGER")
def sign(value: Any) -> int:
    """-1, 0 or 1."""
    return int(value > 0) - int(value < 0)


@function("CEIL", "INTEGER -> INTEGER", "BIGINT -> BIGINT", "DOUBLE -> DOUBLE")
def ceil(value: Any) -> Any:
    """The least whole number that is not less."""
    return float(math.ceil(value)) if isinstance(value, float) and math.isfinite(value) else value


@function("FLOOR", "INTEGER -> INTEGER", "BIGINT -> BIGINT", "DOUBLE -> DOUBLE")
def floor(value: Any) -> Any:
    """The greatest whole number that is not greater."""
    return float(math.floor(value)) if isinstance(value, float) and math.isfinite(value) else value


def whole_scaled(value: Decimal, rounding: str) -> Decimal:
    scale = -int(value.as_tuple().exponent)
    return value.quantize(Decimal(1), rounding, java.EXACT).quantize(Decimal(1).scaleb(-scale), context=java.EXACT)


@function("CEIL", "DECIMAL -> DECIMAL", returns=lambda kinds: kinds[0])
def ceil_decimal(value: Decimal) -> Decimal:
    return whole_scaled(value, ROUND_CEILING)


@function("FLOOR", "DECIMAL -> DECIMAL", returns=lambda kinds: kinds[0])
def floor_decimal(value: Decimal) -> Decimal:
    return whole_scaled(value, ROUND_FLOOR)


@function("ROUND", "INTEGER -> INTEGER", "BIGINT -> BIGINT")
def round_whole(value: int) -> int:
    """The nearest number, halves away from zero: ROUND(value [, decimals])."""
    return value


@function("ROUND", "DOUBLE -> BIGINT")
def round_double(value: float) -> int:
    return java.to_int64(math.floor(value + 0.5) if math.isfinite(value) else value)


@function("ROUND", "DOUBLE, INTEGER -> DOUBLE")
def round_double_to(value: float, places: int) -> float:
    if not math.isfinite(value):
        return value
    return float(rounded(Decimal(repr(value)), places, half_up(value)))


@function("ROUND", "DECIMAL -> DECIMAL", returns=lambda kinds: decimal(max(kinds[0].precision - kinds[0].scale, 1), 0))
def round_decimal(value: Decimal) -> Decimal:
    return rounded(value, 0, half_up(value))


@function("ROUND", "DECIMAL, INTEGER -> DECIMAL", returns=lambda kinds: kinds[0])
def round_decimal_to(value: Decimal, places: int) -> Decimal:
    scale = -int(value.as_tuple().exponent)
    return rounded(value, places, half_up(value)).quantize(Decimal(1).scaleb(-scale), context=java.EXACT)


def half_up(value: Any) -> str:
    """Java's HALF_UP for what is positive, and HALF_DOWN below zero, as ksqlDB rounds."""
    return ROUND_HALF_UP if value >= 0 else "ROUND_HALF_DOWN"


def rounded(value: Decimal, places: int, rounding: str) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-places), rounding, java.EXACT)


@function("TRUNC", "INTEGER -> INTEGER", "BIGINT -> BIGINT")
def trunc_whole(value: int) -> int:
    """The number cut off at its point: TRUNC(value [, decimals])."""
    return value


@function("TRUNC", "DOUBLE -> BIGINT")
def trunc_double(value: float) -> int:
    return java.to_int64(value)


@function("TRUNC", "DOUBLE, INTEGER -> DOUBLE")
def trunc_double_to(value: float, places: int) -> float:
    return float(rounded(Decimal(repr(value)), places, ROUND_DOWN)) if math.isfinite(value) else value


@function("TRUNC", "DECIMAL -> DECIMAL", returns=lambda kinds: decimal(max(kinds[0].precision - kinds[0].scale, 1), 0))
def trunc_decimal(value: Decimal) -> Decimal:
    return rounded(value, 0, ROUND_DOWN)


@function("TRUNC", "DECIMAL, INTEGER -> DECIMAL", returns=lambda kinds: kinds[0])
def trunc_decimal_to(value: Decimal, places: int) -> Decimal:
    scale = -int(value.as_tuple().exponent)
    return rounded(value, places, ROUND_DOWN).quantize(Decimal(1).scaleb(-scale), context=java.EXACT)


def widest(kinds: list[SqlType]) -> SqlType:
    found = kinds[0]
    for one in kinds[1:]:
        found = common(found, one) or found
    return found


@function("GREATEST", "T, T* -> T", nulls=True, returns=widest)
def greatest(*values: Any) -> Any:
    """The greatest of the values that are not null."""
    return max((one for one in values if one is not None), default=None)


@function("LEAST", "T, T* -> T", nulls=True, returns=widest)
def least(*values: Any) -> Any:
    """The least of the values that are not null."""
    return min((one for one in values if one is not None), default=None)


@function("GEO_DISTANCE", "DOUBLE, DOUBLE, DOUBLE, DOUBLE, STRING? -> DOUBLE", nulls=True)
def geo_distance(
    lat1: float | None, lon1: float | None, lat2: float | None, lon2: float | None, unit: str | None = None
) -> float | None:
    """The way along a great circle between two points: GEO_DISTANCE(lat1, lon1, lat2, lon2 [, 'KM' | 'MI'])."""
    if lat1 is None or lon1 is None or lat2 is None or lon2 is None:
        return None
    unit = unit or "KM"
    for latitude in (lat1, lat2):
        if not -90 <= latitude <= 90:
            raise java.EvaluationError(f"latitudes of GEO_DISTANCE are from -90 to 90 degrees, not {latitude}")
    for longitude in (lon1, lon2):
        if not -180 <= longitude <= 180:
            raise java.EvaluationError(f"longitudes of GEO_DISTANCE are from -180 to 180 degrees, not {longitude}")
    if unit.upper() not in ("KM", "KILOMETER", "KILOMETERS", "MI", "MILE", "MILES"):
        raise java.EvaluationError(f"GeoDistance function units parameter must be one of KM or MILES, not {unit}")
    radius = EARTH_MILES if unit.upper().startswith("MI") else EARTH_KM
    d_lat, d_lon = math.radians(lat2 - lat1), math.radians(lon2 - lon1)
    a = math.sin(d_lat / 2) ** 2 + math.sin(d_lon / 2) ** 2 * math.cos(math.radians(lat1)) * math.cos(
        math.radians(lat2)
    )
    return radius * 2 * math.asin(math.sqrt(a))
