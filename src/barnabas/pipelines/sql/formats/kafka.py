"""KAFKA: one column as Kafka's own serializers write it, numbers big-endian."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from barnabas.pipelines.sql.formats.codecs import Codec, SerdeError

FORMS = {"INTEGER": ">i", "BIGINT": ">q", "DOUBLE": ">d"}


class KafkaCodec(Codec):
    def encode(self, values: Sequence[Any]) -> bytes | None:
        value, base = values[0], self.columns[0][1].base
        if value is None:
            return None
        if base == "STRING":
            return str(value).encode()
        return bytes(value) if base == "BYTES" else struct.pack(FORMS[base], value)

    def decode_all(self, data: Sequence[bytes]) -> list[tuple[Any, ...]]:
        return list(zip(self.decode_singles(data), strict=True))

    def decode_singles(self, data: Sequence[bytes]) -> list[Any]:
        if self.columns[0][1].base == "STRING":
            try:
                return list(map(bytes.decode, data))
            except UnicodeDecodeError:
                pass  # one by one it is told
        return [self.decode(one)[0] for one in data]

    def decode(self, data: bytes) -> tuple[Any, ...]:
        base = self.columns[0][1].base
        if base == "STRING":
            try:
                return (data.decode(),)
            except UnicodeDecodeError:
                raise SerdeError("it is no UTF-8") from None
        if base == "BYTES":
            return (data,)
        form = FORMS[base]
        if struct.calcsize(form) != len(data):
            raise SerdeError(f"Size of data received by the {base} deserializer is not {struct.calcsize(form)}")
        return (struct.unpack(form, data)[0],)
