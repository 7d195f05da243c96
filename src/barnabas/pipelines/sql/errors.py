"""What a user's statement can be refused with: one sentence, with the place in the text where there is one."""

from __future__ import annotations


class SqlError(Exception):
    """A mistake in a statement, or something that a statement names and that is not there."""

    code = 40001  # of the REST API: a bad statement

    def __init__(self, message: str, statement: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.statement = statement


class SqlSyntaxError(SqlError):
    """The text is no statement. `line` and `column` are those of the first word that does not fit, from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}:{column}: {message}")
        self.line, self.column = line, column


def nearest(name: str, known: list[str]) -> str:
    """The end of a sentence about a name that is not known."""
    from difflib import get_close_matches

    close = get_close_matches(name.upper(), [one.upper() for one in known], n=1, cutoff=0.6)
    if not close:
        return ""
    return f" Did you mean '{next(one for one in known if one.upper() == close[0])}'?"
