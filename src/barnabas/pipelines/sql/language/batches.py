"""SELECTs that Spark answers in batch: which ones they are, and their text as Spark reads it.

They have no EMIT and say what streams can't: ORDER BY, DISTINCT, a window function, a subquery, WITH, UNION, or a file
(parquet.`/path`). Whatever they say beyond that is checked by Spark.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from barnabas.pipelines.sql.language.lexer import END, OPERATOR, QUOTED, STRING, WORD, Token

FILES = ("PARQUET", "ORC", "CSV", "JSON", "TEXT")
PAIRS = (("ORDER", "BY"), ("SORT", "BY"), ("OVER", "("), ("(", "SELECT"), ("SELECT", "DISTINCT"), ("CROSS", "JOIN"))
SETS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")


def is_batch(tokens: Sequence[Token]) -> bool:
    """Of the tokens of one statement."""
    words = [one.text if one.kind in (WORD, OPERATOR) else "" for one in tokens]
    if "EMIT" in words:
        return False
    if words[0] == "WITH":
        return True
    for at, (first, second) in enumerate(itertools.pairwise(words)):
        if (first, second) in PAIRS or (first in SETS and second in ("ALL", "SELECT", "DISTINCT", "(")):
            return True
        if first in FILES and second == "." and at + 2 < len(tokens) and tokens[at + 2].kind == QUOTED:
            return True
    return False


def spark_text(source: str, tokens: Sequence[Token]) -> str:
    """Names in upper case unless they are quoted, backquotes around those that are, `->` as a dot, texts with Spark's
    escapes."""
    found: list[str] = []
    end = 0
    for token in tokens:
        if token.kind == END or (token.kind == OPERATOR and token.text == ";"):
            break
        found.append(" " if token.start > end else "")
        found.append(_shown(token))
        end = token.end
    return "".join(found).strip()


def _shown(token: Token) -> str:
    if token.kind == STRING:
        escaped = token.text.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    if token.kind == QUOTED:
        return "`" + token.text.replace("`", "``") + "`"
    return "." if token.kind == OPERATOR and token.text == "->" else token.text


def names_in(tokens: Sequence[Token]) -> set[str]:
    return {one.text for one in tokens if one.kind in (WORD, QUOTED)}
