"""Patterns of schemas: whether one is broken, and whether a property's name fits one, in bounded time.

Python's engine goes back and tries again, and there are patterns with which that takes years. Patterns that could do so
count as fitting nothing; then a property is not covered by them and a change is refused rather than let through.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from re import _constants as constants  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from barnabas.client.schemas.errors import InvalidSchema

BROKEN = ("missing ]", "missing )", "unexpected )", "no argument for repetition operator", "trailing \\")
NAME_MAX = 512
PATTERN_MAX = 1_000
LOOPS_MAX = 2
BACKTRACKING = (constants.BRANCH, constants.MAX_REPEAT, constants.MIN_REPEAT, constants.SUBPATTERN)
LOOPS = (constants.MAX_REPEAT, constants.MIN_REPEAT)
FORBIDDEN = (constants.GROUPREF, constants.GROUPREF_EXISTS, constants.ASSERT, constants.ASSERT_NOT)


def fits(pattern: str, name: str) -> bool:
    compiled = _compiled(pattern)
    return compiled is not None and len(name) <= NAME_MAX and compiled.search(name) is not None


def check_pattern(pattern: str) -> None:
    """Refuses what no dialect of regular expressions reads; each has things that others do not know."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options=options)
    except re2.error as error:
        reason = (
            error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        )
        if reason.startswith(BROKEN):
            raise InvalidSchema(f"Invalid JSON schema: the pattern {pattern[:200]} is broken: {reason[:200]}") from None


@lru_cache(1_024)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    if len(pattern) > PATTERN_MAX:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if _loops(parser.parse(pattern)) > LOOPS_MAX:
                return None
            return re.compile(pattern)
    except (re.error, RecursionError, OverflowError, ValueError):
        return None


def _loops(tree: Any, inside: bool = False) -> int:
    """The loops of a pattern; far too many if they lie in each other or hold alternatives."""
    count = 0
    for operation, argument in tree:
        if operation in FORBIDDEN or (inside and operation in BACKTRACKING):
            return LOOPS_MAX + 1
        if operation in LOOPS:
            count += 1 + _loops(argument[2], True)
        elif operation is constants.SUBPATTERN:
            count += _loops(argument[-1], inside)
        elif operation is constants.BRANCH:
            count += sum(_loops(each, inside) for each in argument[1])
    return count
