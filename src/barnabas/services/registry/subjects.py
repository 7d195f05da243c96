"""Subjects and the contexts they live in.

A subject is written `name`, or `:.context:name` if it lives in another context than the default one (`.`). A context
alone is `:.context:`. `:*:` in front of a prefix means every context. `:.__GLOBAL:` holds settings for all contexts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

DEFAULT_CONTEXT = "."
GLOBAL_CONTEXT = ".__GLOBAL"
ANY_CONTEXT = ":*:"
RESERVED_SUBJECTS = ("__GLOBAL", "__EMPTY")
CONTEXT_PREFIX = ":."


class Subject(NamedTuple):
    context: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Subject:
        if text.startswith(CONTEXT_PREFIX):
            context, _, name = text[1:].partition(":")
            return cls(context, name)
        if text.startswith(ANY_CONTEXT):
            return cls("*", text[len(ANY_CONTEXT) :])
        return cls(DEFAULT_CONTEXT, text)

    @property
    def context_text(self) -> str:
        """`:.context:`, empty for the default one."""
        return "" if self.context == DEFAULT_CONTEXT else f":{self.context}:"

    @property
    def text(self) -> str:
        return self.context_text + self.name


def normalized(text: str) -> str:
    """`:.:name` is `name`, and `:.context` is `:.context:`."""
    return Subject.parse(text).text if text.startswith(":") else text


def context_of(text: str) -> str:
    return Subject.parse(text).context if text.startswith(":") else DEFAULT_CONTEXT


def context_prefix(name: str) -> str:
    """`:.name:` for a context as people write it; raises ValueError."""
    name = name.removeprefix(":").removesuffix(":")
    if ":" in name:
        raise ValueError(f"Context name '{name}' cannot contain a colon")
    if not name.startswith("."):
        name = f".{name}"
    return "" if name == DEFAULT_CONTEXT else f":{name}:"


def beside(parent: str, text: str) -> str:
    """A subject as another one refers to it: without a context of its own it lives in the same one."""
    subject = Subject.parse(text)
    if subject.context == DEFAULT_CONTEXT:
        return Subject(context_of(parent), subject.name).text
    return subject.text


def is_default_context(text: str) -> bool:
    return Subject.parse(text) == (DEFAULT_CONTEXT, "")


def is_valid(text: str, *, for_settings: bool = False, named: bool = False) -> bool:
    """`named`: a context alone is no subject."""
    if any(ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0 for each in text):
        return False
    subject = Subject.parse(text)
    if subject.name in RESERVED_SUBJECTS or (named and not subject.name):
        return False
    return for_settings or subject.context != GLOBAL_CONTEXT


def having_prefix(subjects: Iterable[str], prefix: str) -> list[str]:
    """In order. `:*:` in front means every context, no context the default one."""
    if prefix.startswith(ANY_CONTEXT):
        rest = prefix[len(ANY_CONTEXT) :]
        return sorted(each for each in subjects if Subject.parse(each).name.startswith(rest))
    found = [each for each in subjects if each.startswith(prefix)]
    if not prefix.startswith(":"):
        found = [each for each in found if context_of(each) == DEFAULT_CONTEXT]
    return sorted(found)
