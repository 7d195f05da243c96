"""A registry without Kafka and HTTP: what is decided is replayed at once."""

from __future__ import annotations

import itertools
import json
from typing import Any

from barnabas.services.registry import decide
from barnabas.services.registry.decide import Pending, RegistryDecision, Rules
from barnabas.services.registry.library import Library
from barnabas.services.registry.records import Record, StoredSchema, decode_key, decode_value
from barnabas.services.registry.requests import SchemaRequest
from barnabas.services.registry.state import State


class Stage:
    def __init__(self) -> None:
        self.state = State()
        self.library = Library(self.state)
        self.pending = Pending()
        self.log: list[Record] = []
        self._clock = itertools.count(1)

    def write(self, *records: Record) -> None:
        """As bytes, as they go through the topic."""
        for record in records:
            self.log.append(record)
            key, value = record.encode()
            decoded = decode_key(key)
            assert decoded == record.key
            self.state.replay(decoded, decode_value(value), next(self._clock))

    def carry_out(self, decision: RegistryDecision) -> Any:
        self.write(*decision.records)
        return decision.answer

    def decide_registration(self, subject: str, schema: Any, **more: Any) -> RegistryDecision:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        request = SchemaRequest(text, **more)
        return decide.register(self.state, self.library, self.pending, Rules(), subject, request, False)

    def register(self, subject: str, schema: Any, **more: Any) -> StoredSchema:
        stored: StoredSchema = self.carry_out(self.decide_registration(subject, schema, **more))
        return stored

    def compacted(self) -> Stage:
        """A registry that starts on what compaction leaves."""
        last = {record.key: position for position, record in enumerate(self.log)}
        stage = Stage()
        stage.write(
            *(record for at, record in enumerate(self.log) if last[record.key] == at and record.value is not None)
        )
        return stage
