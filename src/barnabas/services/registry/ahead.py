"""What threads have worked out for one request, so that its decision takes no time in the event loop.

Decisions are made in the event loop, one after the other, and everybody waits meanwhile. Large schemas take long to
parse, and some pairs take long to compare. Both depend on nothing but the schemas, so a request does them in a thread
first; the decision, which is made again from the beginning, finds what it asks for here.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

from barnabas.client.schemas import ParsedSchema, ResolvedReference

ParseKey = tuple[str, str, tuple[ResolvedReference, ...], bool]  # type, text, what it refers to, whether it is new


@dataclass(slots=True)
class Ahead:
    parsed: dict[ParseKey, ParsedSchema] = field(default_factory=dict)
    normal: dict[int, tuple[ParsedSchema, ParsedSchema]] = field(default_factory=dict)
    compared: dict[tuple[int, int], tuple[ParsedSchema, ParsedSchema, list[str]]] = field(default_factory=dict)


AHEAD: ContextVar[Ahead | None] = ContextVar("ahead", default=None)


def normalized(schema: ParsedSchema) -> ParsedSchema:
    ahead = AHEAD.get()
    if ahead is None:
        return schema.normalized()
    if id(schema) not in ahead.normal:
        ahead.normal[id(schema)] = schema, schema.normalized()
    return ahead.normal[id(schema)][1]


def unreadable(reader: ParsedSchema, written: ParsedSchema, reader_word: str, writer_word: str) -> list[str]:
    ahead = AHEAD.get()
    if ahead is None:
        return reader.unreadable(written, reader_word, writer_word)
    pair = id(reader), id(written)
    if pair not in ahead.compared:
        ahead.compared[pair] = reader, written, reader.unreadable(written, reader_word, writer_word)
    return ahead.compared[pair][2]
