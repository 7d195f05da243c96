"""TRANSFORM, FILTER and REDUCE: functions that take functions."""

from __future__ import annotations

from barnabas.pipelines.sql.compute.compiler import Code, Compiler
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.types import SqlType, array, map_of

SHAPES = {
    ("TRANSFORM", "ARRAY"): "TRANSFORM(array, x => ...)",
    ("TRANSFORM", "MAP"): "TRANSFORM(map, (k, v) => ..., (k, v) => ...)",
    ("FILTER", "ARRAY"): "FILTER(array, x => ...)",
    ("FILTER", "MAP"): "FILTER(map, (k, v) => ...)",
    ("REDUCE", "ARRAY"): "REDUCE(array, state, (s, x) => ...)",
    ("REDUCE", "MAP"): "REDUCE(map, state, (s, k, v) => ...)",
}


def compile_lambda_call(compiler: Compiler, node: tree.Call) -> Code:
    plain = [one for one in node.arguments if not isinstance(one, tree.Lambda)]
    lambdas = [one for one in node.arguments if isinstance(one, tree.Lambda)]
    if not plain or not isinstance(node.arguments[0], tree.Expression) or isinstance(node.arguments[0], tree.Lambda):
        raise SqlError(f"{node.name} takes an ARRAY or a MAP first.")
    values = compiler.compile(plain[0])
    shape = SHAPES.get((node.name, values.kind.base))
    if shape is None:
        raise SqlError(f"{node.name} takes an ARRAY or a MAP first, not {values.kind}.")
    expected = (2 if node.name == "REDUCE" else 1, 2 if shape.count("=>") == 2 else 1)
    if (len(plain), len(lambdas)) != expected:
        raise SqlError(f"{node.name} is called as {shape}.")
    assert values.kind.element is not None
    parts = [values.kind.element]
    if values.kind.base == "MAP":
        assert values.kind.key is not None
        parts = [values.kind.key, values.kind.element]
    if node.name == "REDUCE":
        state = compiler.compile(plain[1])
        change = _lambda(compiler, lambdas[0], [state.kind, *parts], shape)
        name = "reduce_array" if values.kind.base == "ARRAY" else "reduce_map"
        return Code(f"E.{name}({values.source}, {compiler.as_type(state, change.kind)}, {change.source})", change.kind)
    functions = [_lambda(compiler, one, parts, shape) for one in lambdas]
    sources = ", ".join(one.source for one in functions)
    if node.name == "FILTER":
        if functions[0].kind.base != "BOOLEAN":
            raise SqlError(f"The lambda of FILTER gives a BOOLEAN, not {functions[0].kind}.")
        name = "filter_array" if values.kind.base == "ARRAY" else "filter_map"
        return Code(f"E.{name}({values.source}, {sources})", values.kind)
    if values.kind.base == "ARRAY":
        return Code(f"E.transform_array({values.source}, {sources})", array(functions[0].kind))
    return Code(f"E.transform_map({values.source}, {sources})", map_of(functions[0].kind, functions[1].kind))


def _lambda(compiler: Compiler, node: tree.Lambda, kinds: list[SqlType], shape: str) -> Code:
    if len(node.parameters) != len(kinds):
        raise SqlError(f"A lambda has {len(node.parameters)} parameters where {len(kinds)} are given: {shape}.")
    outer = dict(compiler._parameters)
    names = [compiler.fresh() for _ in kinds]
    for parameter, name, kind in zip(node.parameters, names, kinds, strict=True):
        compiler._parameters[parameter] = Code(name, kind)
    try:
        body = compiler.compile(node.body)
    finally:
        compiler._parameters = outer
    return Code(f"(lambda {', '.join(names)}: {body.source})", body.kind)
