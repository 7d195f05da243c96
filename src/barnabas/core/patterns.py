"""Regular expressions that strangers may send: matched in time linear in the text, whatever the expression.

Python's own matcher goes back and tries again, which a short hostile expression makes take for ever. Here, as in RE2,
an expression becomes states, and all states that a text may be in are followed at once; the sets of states met are
remembered, so that the next texts cost one look-up for each character. What cannot be matched in this way (references
to groups, looking ahead or behind) is refused, and so is what would need too many states. `\\d`, `\\s` and `\\w` are
those of ASCII, as in RE2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

STATES_MAX = 5_000
REMEMBERED_MAX = 20_000
DIGITS = frozenset("0123456789")
SPACES = frozenset(" \t\n\r\f\v")
WORDS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
CATEGORIES = {
    sre.CATEGORY_DIGIT: (DIGITS, True),
    sre.CATEGORY_NOT_DIGIT: (DIGITS, False),
    sre.CATEGORY_SPACE: (SPACES, True),
    sre.CATEGORY_NOT_SPACE: (SPACES, False),
    sre.CATEGORY_WORD: (WORDS, True),
    sre.CATEGORY_NOT_WORD: (WORDS, False),
}
BEGINNINGS = (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING)
ENDS = (sre.AT_END, sre.AT_END_STRING)

Test = Callable[[str], bool]
States = frozenset[int]


class PatternError(ValueError):
    """It is no regular expression, or none that is matched here; one sentence."""


class Pattern:
    def __init__(self, text: str) -> None:
        try:
            parsed = parser.parse(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise PatternError(f"'{text[:100]}' is no regular expression: {error}") from error
        self._ignores_case = bool(parsed.state.flags & re.IGNORECASE)
        self._dot_is_all = bool(parsed.state.flags & re.DOTALL)
        # A state is a test and the state behind it; or no test and the states that it stands for.
        self._tests: list[Test | None] = []
        self._next: list[tuple[int, ...]] = []
        self._end = self._add(None, ())
        self._text_end = self._add(None, (self._end,))  # passed only where the text ends
        self._text_begin: set[int] = set()
        try:
            first = self._sequence(parsed, self._end)
        except RecursionError as error:
            raise PatternError("The regular expression is nested too deeply.") from error
        self._start = self._closure([first], at_begin=True)
        self._steps: dict[tuple[States, str], States] = {}

    def fullmatch(self, text: str) -> bool:
        states = self._start
        for char in text:
            found = self._steps.get((states, char))
            if found is None:
                found = self._step(states, char)
            if not found:
                return False
            states = found
        return self._end in states or self._text_end in states

    def _step(self, states: States, char: str) -> States:
        reached = [self._next[state][0] for state in states if (test := self._tests[state]) is not None and test(char)]
        found = self._closure(reached)
        if len(self._steps) >= REMEMBERED_MAX:
            self._steps.clear()
        self._steps[states, char] = found
        return found

    def _closure(self, states: Iterable[int], *, at_begin: bool = False) -> States:
        """These, and those that they stand for."""
        found: set[int] = set()
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if state in found or (state in self._text_begin and not at_begin):
                continue
            found.add(state)
            if self._tests[state] is None and state != self._text_end:
                waiting += self._next[state]
        return frozenset(found)

    # Building, from the end to the beginning

    def _add(self, test: Test | None, following: tuple[int, ...]) -> int:
        if len(self._tests) >= STATES_MAX:
            raise PatternError("The regular expression is too large.")
        self._tests.append(test)
        self._next.append(following)
        return len(self._tests) - 1

    def _sequence(self, items: Any, following: int) -> int:
        for operation, argument in reversed(list(items)):
            following = self._item(operation, argument, following)
        return following

    def _item(self, operation: Any, argument: Any, following: int) -> int:
        if operation in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            return self._add(self._test(operation, argument), (following,))
        if operation is sre.BRANCH:
            return self._add(None, tuple(self._sequence(each, following) for each in argument[1]))
        if operation is sre.SUBPATTERN and not (argument[1] or argument[2]):
            return self._sequence(argument[3], following)
        if operation in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            least, most, items = argument
            return self._repeat(least, most, items, following)
        if operation is sre.AT and argument in ENDS and following == self._end:
            return self._text_end
        if operation is sre.AT and argument in BEGINNINGS:
            state = self._add(None, (following,))
            self._text_begin.add(state)
            return state
        raise PatternError(f"{str(operation).lower()} is not supported in regular expressions here.")

    def _repeat(self, least: int, most: int, items: Any, following: int) -> int:
        if most is sre.MAXREPEAT:
            loop = self._add(None, ())
            self._next[loop] = (self._sequence(items, loop), following)
            following = loop
        else:
            end = following
            for _ in range(most - least):
                following = self._add(None, (self._sequence(items, following), end))
        for _ in range(least):
            following = self._sequence(items, following)
        return following

    def _test(self, operation: Any, argument: Any) -> Test:
        if operation is sre.ANY:
            return (lambda char: True) if self._dot_is_all else (lambda char: char != "\n")
        if operation is not sre.IN:
            argument = [(sre.LITERAL, argument)]
        negated = operation is sre.NOT_LITERAL or argument[0][0] is sre.NEGATE
        parts = [_part(*each) for each in argument if each[0] is not sre.NEGATE]

        def test(char: str) -> bool:
            found = any(part(char) for part in parts)
            if not found and self._ignores_case:
                found = any(part(char.lower()) or part(char.upper()) for part in parts)
            return found is not negated

        return test


def _part(kind: Any, argument: Any) -> Test:
    if kind is sre.LITERAL:
        literal = chr(argument)
        return lambda char: char == literal
    if kind is sre.RANGE:
        low, high = chr(argument[0]), chr(argument[1])
        return lambda char: low <= char <= high
    chars, wanted = CATEGORIES[argument]
    return lambda char: (char in chars) is wanted
