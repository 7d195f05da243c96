"""Which calls change nothing: those that a caller with the role `read` may make.

Queries are sent by POST, so the method does not tell. Statements of /ksql are looked at when they are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.types import Scope

from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.language import tree
from barnabas.web.security import CALLER, is_reading_method

READING_PATHS = frozenset({"/query", "/query-stream", "/close-query", "/ksql"})
UNAUTHORIZED, FORBIDDEN = 40100, 40300
LOOKING = (tree.Show, tree.Describe, tree.Explain, tree.Assert, tree.Define, tree.SelectStatement, tree.Print)
DENIED = "You are forbidden from using this cluster."


def reads(scope: Scope) -> bool:
    return is_reading_method(scope) or scope["path"].rstrip("/") in READING_PATHS


def refusal(status: int) -> Mapping[str, Any]:
    code, message = (UNAUTHORIZED, "Unauthorized") if status == 401 else (FORBIDDEN, DENIED)
    return {"@type": "generic_error", "error_code": code, "message": message}


class Denied(SqlError):
    code = FORBIDDEN


def require_right(statement: tree.Statement) -> None:
    """Of who calls at this moment."""
    caller = CALLER.get()
    if caller is None or caller.may_change or isinstance(statement, LOOKING):
        return
    if not isinstance(statement, tree.SetProperty) or statement.system:
        raise Denied(DENIED)
