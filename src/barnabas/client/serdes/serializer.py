"""Objects of one schema to bytes with the schema's id."""

from __future__ import annotations

from typing import Any, NamedTuple

from barnabas.client.serdes.codec import Codec, codec_of
from barnabas.client.serdes.errors import SerdeError
from barnabas.client.serdes.framing import guid_mark, header_name, id_prefix, write_indexes
from barnabas.client.serdes.registry import Registry
from barnabas.client.serdes.schema import RegisteredSchema, Schema
from barnabas.client.serdes.settings import TOPIC, SerdeSettings, subject_for

HeaderList = list[tuple[str, bytes | None]]


class Prepared(NamedTuple):
    """What is known of a topic after its first record: from then on nobody is asked."""

    registered: RegisteredSchema
    codec: Codec
    mark: bytes  # in front of a record, or in its header


class Serializer:
    """`schema` may be None where the latest version or a given id is used. `subject` replaces the strategy's name;
    `version` is one of the subject's; `message` names the message of a Protobuf file, if it is not the first."""

    def __init__(
        self,
        registry: Registry,
        schema: Schema | None = None,
        settings: SerdeSettings | None = None,
        *,
        is_key: bool = False,
        subject: str | None = None,
        version: int | None = None,
        message: str = "",
    ) -> None:
        self._registry = registry
        self._schema = schema
        self._settings = settings or SerdeSettings()
        self._is_key = is_key
        self._subject = subject
        self._version = version
        self._message = message
        self._prepared: dict[str, Prepared] = {}
        if schema is None and not self._settings.use_latest and self._settings.use_id is None and version is None:
            raise SerdeError("A schema is needed, or use.latest.version, or use.schema.id.")

    def encode(self, topic: str, value: Any, headers: HeaderList | None = None) -> bytes | None:
        """None is a tombstone. Where the id goes into a header, `headers` takes it."""
        if value is None:
            return None
        prepared = self.prepared(topic)
        return self._framed(prepared, prepared.codec.encode(value), headers)

    def encode_json(self, topic: str, tree: Any, headers: HeaderList | None = None) -> bytes:
        """Of the JSON that consoles and REST proxies show."""
        prepared = self.prepared(topic)
        return self._framed(prepared, prepared.codec.from_json(tree), headers)

    def prepared(self, topic: str) -> Prepared:
        """Asks the registry for a topic's first record; raises what it refuses."""
        known = self._prepared.get(topic)
        if known is None:
            known = self._prepared[topic] = self._prepare(topic)
        return known

    def _framed(self, prepared: Prepared, body: bytes, headers: HeaderList | None) -> bytes:
        if not self._settings.id_in_header:
            return prepared.mark + body
        if headers is None:
            raise SerdeError("The schema's id goes into a header, and there are no headers to put it into.")
        headers.append((header_name(self._is_key), prepared.mark))
        return body

    def _prepare(self, topic: str) -> Prepared:
        registered = self._registered(topic)
        schema = registered.schema
        codec = codec_of(
            schema,
            self._registry.resolved(schema),
            logical_types=self._settings.logical_types,
            message=self._message,
        )
        if self._settings.id_in_header:
            if registered.guid is None:
                raise SerdeError(f"{self._registry.url} gives schemas no guids, and headers need them.")
            mark = guid_mark(registered.guid)
        else:
            mark = id_prefix(registered.id)
        return Prepared(registered, codec, mark + message_path(codec))

    def _registered(self, topic: str) -> RegisteredSchema:
        settings = self._settings
        if settings.use_id is not None:
            return self._registry.by_id(settings.use_id)
        subject = self._subject
        if subject is None:
            name = self._record_name() if settings.strategy != TOPIC else None
            subject = subject_for(settings.strategy, topic, name, is_key=self._is_key)
        if self._version is not None:
            return self._registry.version(subject, self._version)
        if settings.use_latest:
            return self._registry.latest(subject)
        assert self._schema is not None
        ask = self._registry.register if settings.auto_register else self._registry.lookup
        return ask(subject, self._schema, normalize=settings.normalize)

    def _record_name(self) -> str | None:
        if self._schema is None:
            return None
        return codec_of(self._schema, self._registry.resolved(self._schema), message=self._message).record_name


def message_path(codec: Codec) -> bytes:
    indexes: tuple[int, ...] | None = getattr(codec, "indexes", None)
    return b"" if indexes is None else write_indexes(indexes)
