"""An answer that comes later: set once, to a value or an error. No loop, no thread; the shell makes a future of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from barnabas.wire.errors import KafkaError

T = TypeVar("T")


class Promise(Generic[T]):
    __slots__ = ("_callbacks", "_error", "_value", "is_done")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Promise[T]], None]] = []
        self._error: KafkaError | None = None
        self._value: T | None = None
        self.is_done = False

    @classmethod
    def of(cls, value: T) -> Promise[T]:
        promise = cls()
        promise.set(value)
        return promise

    @property
    def error(self) -> KafkaError | None:
        return self._error

    def result(self) -> T:
        assert self.is_done, "the answer is not known yet"
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def set(self, value: T) -> None:
        """A promise that is kept already stays as it is."""
        if not self.is_done:
            self._value = value
            self._finish()

    def fail(self, error: KafkaError) -> None:
        if not self.is_done:
            self._error = error
            self._finish()

    def follow(self, other: Promise[T]) -> None:
        """Whatever becomes of the other one becomes of this one."""
        other.then(lambda kept: self.set(kept.result()) if kept.error is None else self.fail(kept.error))

    def then(self, callback: Callable[[Promise[T]], None]) -> None:
        if self.is_done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def _finish(self) -> None:
        self.is_done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)
