"""Python source under construction: the lines, and the objects they refer to by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from barnabas.wire.shapes import Field, fields_of


class Source:
    def __init__(self, **names: Any) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"new": object.__new__, **names}
        self._numbers = itertools.count(1)

    def add(self, depth: int, *lines: str) -> None:
        indent = "    " * depth
        self.lines.extend(indent + line for line in lines)

    def fresh(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers)}"

    def bind(self, prefix: str, value: Any) -> str:
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def constant(self, value: Any) -> str:
        return repr(value) if value is None or type(value) in (bool, int, str, bytes) else self.bind("constant", value)

    def create(self, depth: int, cls: type[Any], *targets: str) -> None:
        """An instance without a constructor's call; its fields are for the caller to set."""
        self.add(depth, " = ".join([*targets, f"new({self.bind(cls.__name__, cls)})"]))

    def set_default(self, depth: int, item: Field, target: str) -> None:
        if item.default_factory is None:
            self.add(depth, f"{target} = {self.constant(item.default)}")
        elif item.default_factory is list:
            self.add(depth, f"{target} = []")
        elif item.struct is not None and not item.is_array:
            self.set_default_struct(depth, item.struct, target)
        else:
            self.add(depth, f"{target} = {self.bind('factory', item.default_factory)}()")

    def set_default_struct(self, depth: int, cls: type[Any], target: str) -> None:
        value = self.fresh("value")
        self.create(depth, cls, target, value)
        for item in fields_of(cls):
            self.set_default(depth, item, f"{value}.{item.name}")

    def compile(self, function: str, title: str) -> Callable[..., Any]:
        code = compile("\n".join(self.lines), f"<{title}>", "exec")
        exec(code, self.names)
        compiled: Callable[..., Any] = self.names[function]
        return compiled
