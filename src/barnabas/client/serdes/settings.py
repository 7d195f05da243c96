"""How serializers behave, under Confluent's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from barnabas.client.errors import InvalidSetting
from barnabas.client.properties import boolean, integer
from barnabas.client.serdes.errors import SerdeError

TOPIC, RECORD, TOPIC_RECORD = "TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy"
STRATEGIES = (TOPIC, RECORD, TOPIC_RECORD)
IN_HEADER, IN_FRONT = "HeaderSchemaIdSerializer", "PrefixSchemaIdSerializer"


@dataclass(frozen=True, slots=True, kw_only=True)
class SerdeSettings:
    strategy: str = TOPIC
    auto_register: bool = True
    use_latest: bool = False
    use_id: int | None = None
    normalize: bool = False
    id_in_header: bool = False
    logical_types: bool = True
    check_json: bool = True

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, is_key: bool = False) -> Self:
        field = "key" if is_key else "value"
        schema_id = integer(properties, "use.schema.id", -1, least=-1)
        return cls(
            strategy=_class_name(properties, f"{field}.subject.name.strategy", TOPIC, STRATEGIES),
            auto_register=boolean(properties, "auto.register.schemas", True),
            use_latest=boolean(properties, "use.latest.version", False),
            use_id=schema_id if schema_id >= 0 else None,
            normalize=boolean(properties, "normalize.schemas", False),
            id_in_header=_class_name(properties, f"{field}.schema.id.serializer", IN_FRONT, (IN_FRONT, IN_HEADER))
            == IN_HEADER,
            check_json=boolean(properties, "json.fail.invalid.schema", True),
        )


def _class_name(properties: Mapping[str, str], name: str, default: str, known: tuple[str, ...]) -> str:
    """Java's class with or without its package."""
    text = properties.get(name) or default
    bare = text.strip().rpartition(".")[2]
    if bare not in known:
        raise InvalidSetting(name, f"must be one of {', '.join(known)}, not '{text}'.")
    return bare


def subject_for(strategy: str, topic: str, record_name: str | None, *, is_key: bool) -> str:
    if strategy == TOPIC:
        return f"{topic}-{'key' if is_key else 'value'}"
    if record_name is None:
        raise SerdeError(f"{strategy} needs a schema with a name, and this one has none.")
    return record_name if strategy == RECORD else f"{topic}-{record_name}"
