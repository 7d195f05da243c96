"""Expressions to Python source, once per query.

`Compiler.compile` gives code and type of an expression; what a column is in code the scope says. `Compiled` is a whole
function of a row: its source and constants travel to Spark's workers, where it is compiled again on the first call.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from barnabas.pipelines.sql.compute import dates, evaluate
from barnabas.pipelines.sql.compute.aggregates import AGGREGATES, TABLE_FUNCTIONS
from barnabas.pipelines.sql.compute.java import EvaluationError
from barnabas.pipelines.sql.compute.registry import find, resolve
from barnabas.pipelines.sql.errors import SqlError, nearest
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.types import (
    BIGINT,
    BOOLEAN,
    NULL,
    STRING,
    SqlType,
    array,
    as_decimal,
    common,
    decimal,
    map_of,
    struct,
)

Scope = Callable[[tree.Column], tuple[str, SqlType]]
COMPARED = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
COMPARISON_NAMES = {
    "=": "EQUAL",
    "<>": "NOT_EQUAL",
    "<": "LESS_THAN",
    "<=": "LESS_THAN_OR_EQUAL",
    ">": "GREATER_THAN",
    ">=": "GREATER_THAN_OR_EQUAL",
}
TIME_TYPES = {"TIMESTAMP": dates.lenient_timestamp, "DATE": dates.date_of, "TIME": dates.time_of}
PSEUDO_TIMES = ("ROWTIME", "WINDOWSTART", "WINDOWEND")
LAMBDA_FUNCTIONS = ("TRANSFORM", "FILTER", "REDUCE")


class Code(NamedTuple):
    source: str
    kind: SqlType
    never_null: bool = False


OF_A_ROW = "lambda r: "
CONSTANT_LETTERS_MAX = 100


class Compiled:
    """A function of one row, or of what the code names as parameters."""

    __slots__ = ("_all", "_call", "constants", "source")

    def __init__(self, source: str, constants: tuple[Any, ...]) -> None:
        self.source, self.constants = source, constants
        self._call: Any = None
        self._all: Any = None

    def __reduce__(self) -> Any:
        return Compiled, (self.source, self.constants)

    @property
    def call(self) -> Callable[..., Any]:
        """The plain function: what Java would throw is raised."""
        if self._call is None:
            self._call = eval(self.source, {"E": evaluate, "c": self.constants})
        return self._call  # type: ignore[no-any-return]

    def all(self, rows: Sequence[Any]) -> list[Any]:
        """For many rows at once, if it is a function of one row."""
        if self._all is None:
            code = self.source.removeprefix(OF_A_ROW)
            assert code != self.source
            self._all = eval(f"lambda rows: [{code} for r in rows]", {"E": evaluate, "c": self.constants})
        return self._all(rows)  # type: ignore[no-any-return]

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)


class Compiler:
    def __init__(self, scope: Scope, functions: Mapping[str, Any] | None = None) -> None:
        self.scope = scope
        self.constants: list[Any] = []
        self.functions = functions or {}  # CREATE FUNCTION's: name -> (argument types, type, place)
        self._names = itertools.count()
        self._parameters: dict[str, Code] = {}  # of lambdas around

    def function(self, code: str, parameters: str = "r") -> Compiled:
        made = Compiled(f"lambda {parameters}: {code}", tuple(self.constants))
        try:
            _ = made.call
        except (SyntaxError, RecursionError, MemoryError):
            raise SqlError("The expression is nested too deeply.") from None
        return made

    def constant(self, value: Any) -> str:
        self.constants.append(value)
        return f"c[{len(self.constants) - 1}]"

    def compile(self, expression: tree.Expression) -> Code:
        handler = HANDLERS[type(expression)]
        return handler(self, expression)

    def as_type(self, code: Code, wanted: SqlType) -> str:
        """The code, with its value widened where Java would."""
        if code.kind in (wanted, NULL):
            return code.source
        if code.kind.base == wanted.base and wanted.base in ("INTEGER", "BIGINT", "DOUBLE"):
            return code.source
        if (code.kind.base, wanted.base) == ("INTEGER", "BIGINT"):
            return code.source
        return f"{self.constant(evaluate.Caster(code.kind, wanted))}({code.source})"

    def fresh(self) -> str:
        return f"x{next(self._names)}"

    def both(self, left: str, right: str, result: str, otherwise: str = "None") -> str:
        """`result` of `{0}` and `{1}`, unless one of them is null: that fails inside of a lambda, as in Java."""
        if self._parameters and otherwise == "None":
            otherwise = "E.missing()"
        names = [one if is_constant(one) else self.fresh() for one in (left, right)]
        missing = [
            f"({name} := {code}) is None" for name, code in zip(names, (left, right), strict=True) if name != code
        ]
        found = result.format(*names)
        return f"({otherwise} if {' or '.join(missing)} else {found})" if missing else f"({found})"


def is_constant(source: str) -> bool:
    """Whether code stands for a value that is known and not null."""
    if source == "None" or len(source) > CONSTANT_LETTERS_MAX:
        return False
    try:
        ast.literal_eval(source)
    except (ValueError, SyntaxError):
        return False
    return True


def _literal(compiler: Compiler, node: tree.Literal) -> Code:
    plain = isinstance(node.value, (bool, int, str)) or (isinstance(node.value, float) and math.isfinite(node.value))
    if node.value is None or plain:
        return Code(repr(node.value), node.kind, node.value is not None)
    return Code(compiler.constant(node.value), node.kind, True)


def _column(compiler: Compiler, node: tree.Column) -> Code:
    if node.source is None and node.name in compiler._parameters:
        return compiler._parameters[node.name]
    return Code(*compiler.scope(node))


def _field(compiler: Compiler, node: tree.Field) -> Code:
    base = compiler.compile(node.base)
    if base.kind.base != "STRUCT":
        raise SqlError(f"Expected STRUCT type, got: {base.kind}: '->{node.name}' is for fields of a STRUCT.")
    kind = base.kind.field(node.name)
    if kind is None:
        known = [name for name, _ in base.kind.fields]
        raise SqlError(f"Could not find field '{node.name}' in {base.kind}.{nearest(node.name, known)}")
    return Code(f"E.field({base.source}, {node.name!r})", kind)


def _subscript(compiler: Compiler, node: tree.Subscript) -> Code:
    base, index = compiler.compile(node.base), compiler.compile(node.index)
    if base.kind.base == "ARRAY" and base.kind.element is not None:
        if index.kind.base not in ("INTEGER", "BIGINT"):
            raise SqlError(f"An ARRAY is indexed by whole numbers, not by {index.kind}.")
        return Code(f"E.element({base.source}, {index.source})", base.kind.element)
    if base.kind.base == "MAP" and base.kind.element is not None:
        return Code(f"E.entry({base.source}, {index.source})", base.kind.element)
    raise SqlError(f"[] is for an ARRAY or a MAP, not for {base.kind}.")


def _unary(compiler: Compiler, node: tree.Unary) -> Code:
    operand = compiler.compile(node.operand)
    if node.operator == "NOT":
        _need_boolean(operand, "NOT")
        return Code(f"(not {_truth(operand)})", BOOLEAN, True)
    if not operand.kind.is_numeric:
        raise SqlError(f"Unsupported arithmetic types. -{operand.kind}")
    name = compiler.fresh()
    negated = f"{name}.copy_negate()" if operand.kind.base == "DECIMAL" else f"-{name}"
    if operand.kind.base in ("INTEGER", "BIGINT"):
        negated = f"E.int{32 if operand.kind.base == 'INTEGER' else 64}({negated})"
    return Code(f"(None if ({name} := {operand.source}) is None else {negated})", operand.kind)


def _need_boolean(code: Code, what: str) -> None:
    if code.kind.base not in ("BOOLEAN", "NULL"):
        raise SqlError(f"{what} needs a BOOLEAN, not {code.kind}.")


def _truth(code: Code) -> str:
    return code.source if code.never_null else f"E.truth({code.source})"


def _binary(compiler: Compiler, node: tree.Binary) -> Code:
    if node.operator in ("AND", "OR"):
        left, right = compiler.compile(node.left), compiler.compile(node.right)
        _need_boolean(left, node.operator)
        _need_boolean(right, node.operator)
        return Code(f"({_truth(left)} {node.operator.lower()} {_truth(right)})", BOOLEAN, True)
    if node.operator in ("+", "-", "*", "/", "%"):
        return _arithmetic(compiler, node)
    left, right = _comparable(compiler, node)
    if node.operator in COMPARED:
        result = f"{{0}} {COMPARED[node.operator]} {{1}}"
        return Code(compiler.both(left.source, right.source, result, "False"), BOOLEAN, True)
    negation = "" if node.operator == "IS NOT DISTINCT FROM" else "not "
    return Code(f"({negation}E.same({left.source}, {right.source}))", BOOLEAN, True)


def _arithmetic(compiler: Compiler, node: tree.Binary) -> Code:
    left, right, operator = compiler.compile(node.left), compiler.compile(node.right), node.operator
    if operator == "+" and "STRING" in (left.kind.base, right.kind.base) and common(left.kind, right.kind) == STRING:
        return Code(compiler.both(left.source, right.source, "{0} + {1}"), STRING)
    kind = result_type(operator, left.kind, right.kind)
    if kind.base == "DECIMAL" or operator in ("/", "%"):
        name = {
            "+": "decimal_sum",
            "-": "decimal_difference",
            "*": "decimal_product",
            "/": "divide",
            "%": "modulo",
        }[operator]
        one, other = (f"E.present({each.source})" if compiler._parameters else each.source for each in (left, right))
        return Code(f"E.{name}({one}, {other}, {compiler.constant(kind)})", kind)
    if kind.base == "DOUBLE":
        left, right = (
            Code(repr(float(ast.literal_eval(one.source))), kind, True)
            if one.kind.base in ("INTEGER", "BIGINT") and is_constant(one.source)
            else one
            for one in (left, right)
        )
        wide = [
            f"float({{{at}}})" if one.base != "DOUBLE" else f"{{{at}}}"
            for at, one in enumerate((left.kind, right.kind))
        ]
        return Code(compiler.both(left.source, right.source, f"{wide[0]} {operator} {wide[1]}"), kind)
    narrow = "E.int32" if kind.base == "INTEGER" else "E.int64"
    return Code(compiler.both(left.source, right.source, f"{narrow}({{0}} {operator} {{1}})"), kind)


def result_type(operator: str, left: SqlType, right: SqlType) -> SqlType:
    left, right = (right if left == NULL else left), (left if right == NULL else right)
    if not left.is_numeric or not right.is_numeric:
        raise SqlError(f"Unsupported arithmetic types. {left} {operator} {right}")
    kind = common(left, right) or left
    if kind.base != "DECIMAL":
        return kind
    one, other = as_decimal(left), as_decimal(right)
    p1, s1, p2, s2 = one.precision, one.scale, other.precision, other.scale
    if operator in ("+", "-"):
        return decimal(max(s1, s2) + max(p1 - s1, p2 - s2) + 1, max(s1, s2))
    if operator == "*":
        return decimal(p1 + p2 + 1, s1 + s2)
    if operator == "/":
        scale = max(6, s1 + p2 + 1)
        return decimal(p1 - s1 + s2 + scale, scale)
    return decimal(min(p1 - s1, p2 - s2) + max(s1, s2) or 1, max(s1, s2))


def _comparable(compiler: Compiler, node: tree.Binary) -> tuple[Code, Code]:
    if node.operator in COMPARED:
        for one in (node.left, node.right):
            if isinstance(one, tree.Literal) and one.value is None:
                raise SqlError(f"Nothing is {node.operator} NULL: IS NULL, or IS DISTINCT FROM, asks for it.")
    left = _moment(compiler, node.left, node.right)
    right = _moment(compiler, node.right, node.left)
    return compared_types(compiler, node.operator, left, right)


def compared_types(compiler: Compiler, operator: str, left: Code, right: Code) -> tuple[Code, Code]:
    kinds = {left.kind.base, right.kind.base}
    if "STRING" in kinds and kinds & TIME_TYPES.keys():
        wanted = left.kind if right.kind.base == "STRING" else right.kind
        return (
            Code(compiler.as_type(left, wanted), wanted),
            Code(compiler.as_type(right, wanted), wanted),
        )
    kind = common(left.kind, right.kind)
    ordered = (
        kind is not None and kind.base in ("ARRAY", "MAP", "STRUCT", "BOOLEAN") and operator in ("<", "<=", ">", ">=")
    )
    if kind is None or ordered:
        name = COMPARISON_NAMES.get(operator, operator)
        raise SqlError(f"Cannot compare {left.kind} to {right.kind} with {name}.")
    if kind.base == "TIMESTAMP" and left.kind != right.kind:
        return Code(compiler.as_type(left, kind), kind), Code(compiler.as_type(right, kind), kind)
    if kinds == {"DOUBLE", "DECIMAL"}:  # 0.1 is 0.1, not what is nearest to it in binary
        one, other = (
            code if code.kind.base == "DECIMAL" else Code(f"E.exact({code.source})", code.kind)
            for code in (left, right)
        )
        return one, other
    return left, right


def _moment(compiler: Compiler, node: tree.Expression, other: tree.Expression) -> Code:
    """Text that is compared with ROWTIME and its like is a point in time."""
    is_time = isinstance(other, tree.Column) and other.name in PSEUDO_TIMES
    if is_time and isinstance(node, tree.Literal) and isinstance(node.value, str):
        try:
            return Code(repr(dates.lenient_timestamp(node.value)), BIGINT, True)
        except EvaluationError as error:
            raise SqlError(str(error)) from None
    return compiler.compile(node)


def _is_null(compiler: Compiler, node: tree.IsNull) -> Code:
    operand = compiler.compile(node.operand)
    return Code(f"({operand.source} is {'not ' if node.negated else ''}None)", BOOLEAN, True)


def _between(compiler: Compiler, node: tree.Between) -> Code:
    low = tree.Binary(">=", node.operand, node.low)
    high = tree.Binary("<=", node.operand, node.high)
    found = compiler.compile(tree.Binary("AND", low, high))
    return Code(f"(not {found.source})", BOOLEAN, True) if node.negated else found


def _in_list(compiler: Compiler, node: tree.InList) -> Code:
    from barnabas.pipelines.sql.compute.lists import one_type

    nodes = [node.operand, *node.values]
    codes = [compiler.compile(node.operand), *(_moment(compiler, one, node.operand) for one in node.values)]
    bases = {one.kind.base for one in codes}
    if "STRING" in bases and bases & TIME_TYPES.keys():
        operand = codes[0]
        values = [compared_types(compiler, "=", operand, one)[1] for one in codes[1:]]
    else:
        (operand, *values), _ = one_type(compiler, nodes, codes, "IN")
    inner = ", ".join(one.source for one in values)
    name = compiler.fresh()
    found = f"(({name} := {operand.source}) is not None and {name} in ({inner},))"
    return Code(f"(not {found})" if node.negated else found, BOOLEAN, True)


def _like(compiler: Compiler, node: tree.Like) -> Code:
    operand, pattern = compiler.compile(node.operand), compiler.compile(node.pattern)
    for code in (operand, pattern):
        if code.kind.base not in ("STRING", "NULL"):
            raise SqlError(f"LIKE is for text, not for {code.kind}.")
    found = f"E.like({operand.source}, {pattern.source}, {node.escape!r})"
    return Code(f"(not E.truth({found}))" if node.negated else found, BOOLEAN)


def _case(compiler: Compiler, node: tree.Case) -> Code:
    whens: list[tuple[Code, Code]] = []
    for condition, result in node.whens:
        test = condition if node.operand is None else tree.Binary("=", node.operand, condition)
        code = compiler.compile(test)
        _need_boolean(code, "WHEN")
        whens.append((code, compiler.compile(result)))
    default = compiler.compile(node.default) if node.default is not None else Code("None", NULL)
    kind = default.kind
    for _, result_code in whens:
        together = common(kind, result_code.kind)
        if together is None:
            raise SqlError(f"Invalid Case expression: results are of types {kind} and {result_code.kind}.")
        kind = together
    source = safe(compiler.as_type(default, kind))
    for test_code, result_code in reversed(whens):
        source = f"({safe(compiler.as_type(result_code, kind))} if {test_code.source} else {source})"
    return Code(source, kind)


def _cast(compiler: Compiler, node: tree.Cast) -> Code:
    operand = compiler.compile(node.operand)
    return Code(f"{compiler.constant(evaluate.Caster(operand.kind, node.kind))}({operand.source})", node.kind)


RAISES = re.compile(r"c\[\d+\]\(|E\.(?!int32|int64|field|element|entry|same|safe)")


def safe(source: str) -> str:
    """What can't be computed is null, and what is around it goes on."""
    return f"E.safe(lambda: {source})" if RAISES.search(source) else source


def _unified(compiler: Compiler, nodes: Sequence[tree.Expression], what: str) -> tuple[list[str], SqlType]:
    from barnabas.pipelines.sql.compute.lists import one_type

    codes, kind = one_type(compiler, nodes, [compiler.compile(one) for one in nodes], what)
    return [safe(one.source) for one in codes], kind


def _array(compiler: Compiler, node: tree.ArrayOf) -> Code:
    sources, kind = _unified(compiler, node.elements, "an array")
    if kind == NULL:
        raise SqlError("Array constructor cannot be empty, nor of nulls alone. Please supply at least one element.")
    return Code(f"[{', '.join(sources)}]", array(kind), True)


def _map(compiler: Compiler, node: tree.MapOf) -> Code:
    keys, key_kind = _unified(compiler, [key for key, _ in node.entries], "a map")
    values, kind = _unified(compiler, [value for _, value in node.entries], "a map")
    if kind == NULL or key_kind == NULL:
        raise SqlError(
            "Map constructor cannot be empty, nor of nulls alone. Please supply at least one key value pair."
        )
    entries = ", ".join(f"{key}: {value}" for key, value in zip(keys, values, strict=True))
    return Code(f"{{{entries}}}", map_of(key_kind, kind), True)


def _struct(compiler: Compiler, node: tree.StructOf) -> Code:
    codes = [(name, compiler.compile(one)) for name, one in node.fields]
    for name, code in codes:
        if code.kind == NULL:
            raise SqlError(f"Field {name} of a STRUCT is null and has no type: CAST it.")
    names = [name for name, _ in codes]
    if len(set(names)) < len(names):
        twice = next(one for one in names if names.count(one) > 1)
        raise SqlError(f"A STRUCT has each field once: `{twice}` is there twice.")
    inner = ", ".join(f"{name!r}: {safe(code.source)}" for name, code in codes)
    return Code(f"{{{inner}}}", struct(*((name, code.kind) for name, code in codes)), True)


def _call(compiler: Compiler, node: tree.Call) -> Code:
    if node.name in LAMBDA_FUNCTIONS:
        from barnabas.pipelines.sql.compute.lambdas import compile_lambda_call

        return compile_lambda_call(compiler, node)
    codes = [compiler.compile(one) for one in node.arguments]
    if node.name in ("GREATEST", "LEAST"):
        codes = _moments(compiler, node, codes)
    if node.name in compiler.functions:
        return _python_call(compiler, node, codes)
    entry = find(node.name, [*LAMBDA_FUNCTIONS, *AGGREGATES, *TABLE_FUNCTIONS, *compiler.functions])
    variant, kind = resolve(entry, [code.kind for code in codes])
    wanted = variant.signature.expanded(len(codes)) or []
    sources = [
        _argument(compiler, code, one.kind, kind if one.kind.base in ("T", "NUM") else None)
        for code, one in zip(codes, wanted, strict=True)
    ]
    if variant.nulls:
        sources = [safe(one) for one in sources]
    number = entry.variants.index(variant)
    call = compiler.constant(evaluate.FunctionCall(entry.name, number, tuple(code.kind for code in codes)))
    return Code(f"{call}({', '.join(sources)})", kind)


def _moments(compiler: Compiler, node: tree.Call, codes: list[Code]) -> list[Code]:
    """Texts written beside dates and times are such."""
    kind = next((one.kind for one in codes if one.kind.base in TIME_TYPES), None)
    if kind is None:
        return codes
    return [
        Code(compiler.as_type(code, kind), kind)
        if isinstance(one, tree.Literal) and code.kind.base == "STRING"
        else code
        for one, code in zip(node.arguments, codes, strict=True)
    ]


def _argument(compiler: Compiler, code: Code, wanted: SqlType, bound: SqlType | None) -> str:
    """Arguments are widened to DOUBLE, or to the type that several have in common."""
    if wanted.base == "DOUBLE":
        return compiler.as_type(code, wanted)
    if wanted.base == "TIMESTAMP" and code.kind.base == "DATE":
        return compiler.as_type(code, wanted)
    if wanted.base == "DECIMAL" and code.kind.base in ("INTEGER", "BIGINT"):
        return compiler.as_type(code, as_decimal(code.kind))
    if bound is not None and bound.is_numeric and code.kind.is_numeric and bound != code.kind:
        return compiler.as_type(code, bound)
    return code.source


def _python_call(compiler: Compiler, node: tree.Call, codes: list[Code]) -> Code:
    wanted, kind, place = compiler.functions[node.name]
    if len(wanted) != len(codes):
        raise SqlError(f"Function '{node.name}' takes {len(wanted)} arguments, not {len(codes)}.")
    sources = [compiler.as_type(code, one) for code, one in zip(codes, wanted, strict=True)]
    return Code(f"{compiler.constant(evaluate.PythonFunction(place))}({', '.join(sources)})", kind)


def _lambda(compiler: Compiler, node: tree.Lambda) -> Code:
    raise SqlError("A lambda (=>) is an argument of TRANSFORM, FILTER or REDUCE.")


HANDLERS: dict[type, Callable[[Compiler, Any], Code]] = {
    tree.Literal: _literal,
    tree.Column: _column,
    tree.Field: _field,
    tree.Subscript: _subscript,
    tree.Unary: _unary,
    tree.Binary: _binary,
    tree.IsNull: _is_null,
    tree.Between: _between,
    tree.InList: _in_list,
    tree.Like: _like,
    tree.Case: _case,
    tree.Cast: _cast,
    tree.ArrayOf: _array,
    tree.MapOf: _map,
    tree.StructOf: _struct,
    tree.Call: _call,
    tree.Lambda: _lambda,
}
