"""SELECTs that Spark answers in batch: which ones they are, and their text as Spark reads it.

They have no EMIT and say what streams can't: ORDER BY, DISTINCT, a window function, a subquery, WITH, UNION, or a file
(parquet.`/path`). Whatever they say beyond that is checked by Spark.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

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


def files_in(tokens: Sequence[Token]) -> dict[int, tuple[str, str]]:
    """Format and path of each file, by the place of its first token; it has three."""
    found: dict[int, tuple[str, str]] = {}
    for at, (first, dot, path) in enumerate(zip(tokens, tokens[1:], tokens[2:], strict=False)):
        if first.kind == WORD and first.text in FILES and dot.text == "." and path.kind == QUOTED:
            found[at] = (first.text, path.text)
    return found


def spark_text(tokens: Sequence[Token], files: Mapping[int, str]) -> str:
    """Names in upper case unless they are quoted, backquotes around those that are, `->` as a dot, texts with Spark's
    escapes, and views in the places of files. In parentheses, so that it is a query and nothing else."""
    found: list[str] = []
    end = 0
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.kind == END or (token.kind == OPERATOR and token.text == ";"):
            break
        after_word = at > 0 and tokens[at - 1].kind == WORD and token.kind == STRING  # r'...' is another text
        found.append(" " if token.start > end or after_word else "")
        if at in files:
            found.append(files[at])
            at += 2
        else:
            found.append(_shown(token))
        end = tokens[at].end
        at += 1
    return f"({''.join(found).strip()})"


def _shown(token: Token) -> str:
    if token.kind == STRING:
        escaped = token.text.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    if token.kind == QUOTED:
        return "`" + token.text.replace("`", "``") + "`"
    return "." if token.kind == OPERATOR and token.text == "->" else token.text


def names_in(tokens: Sequence[Token]) -> set[str]:
    return {one.text for one in tokens if one.kind in (WORD, QUOTED)}
