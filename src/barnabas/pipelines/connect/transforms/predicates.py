"""Predicates: which records a transformation is for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from barnabas.pipelines.connect.config import Definition, Setting, java_regex, not_empty, regex
from barnabas.pipelines.connect.data.record import Record


class Predicate:
    definition: ClassVar[Definition] = Definition()
    doc: ClassVar[str] = ""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.values = self.definition.parse(settings)

    def test(self, record: Record) -> bool:
        raise NotImplementedError


class HasHeaderKey(Predicate):
    doc = "A predicate which is true for records with at least one header with the configured name."
    definition = Definition([Setting("name", importance="MEDIUM", doc="The header name.", check=not_empty)])

    def test(self, record: Record) -> bool:
        return any(each.key == self.values["name"] for each in record.headers)


class RecordIsTombstone(Predicate):
    doc = "A predicate which is true for records which are tombstones (i.e. have null value)."

    def test(self, record: Record) -> bool:
        return record.value is None


class TopicNameMatches(Predicate):
    doc = "A predicate which is true for records with a topic name that matches the configured regular expression."
    definition = Definition(
        [Setting("pattern", importance="MEDIUM", doc="A regular expression for the topic.", check=regex)]
    )

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__(settings)
        not_empty("pattern", self.values["pattern"])
        self._pattern = re.compile(java_regex(self.values["pattern"]))

    def test(self, record: Record) -> bool:
        return self._pattern.fullmatch(record.topic) is not None
