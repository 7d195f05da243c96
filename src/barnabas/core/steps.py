"""Functions about many items, which somebody may interrupt between two of them.

A decision is pure and knows no event loop; but one about ten thousand topics takes longer than others should wait. So
it is a generator that yields between items. Whoever has others to serve runs its `steps`; everybody else calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]


class Stepwise(Generic[P, T]):
    """Decorates a generator function: a call runs it to its end, `steps` gives the generator."""

    def __init__(self, steps: Callable[P, Steps[T]]) -> None:
        self.steps = steps
        self.__doc__ = steps.__doc__

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> T:
        steps = self.steps(*arguments, **named)
        while True:
            try:
                next(steps)
            except StopIteration as finished:
                result: T = finished.value
                return result
