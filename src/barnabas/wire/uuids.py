"""Kafka's UUIDs: sixteen bytes, shown in URL-safe base64 without padding."""

from __future__ import annotations

import base64
import os
import re
from typing import Self

_TEXT = re.compile("[A-Za-z0-9_-]{22}(==)?")


class Uuid(bytes):
    __slots__ = ()

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self).rstrip(b"=").decode()

    def __repr__(self) -> str:
        return f"Uuid({str(self)!r})"

    @classmethod
    def parse(cls, text: str) -> Self:
        if not _TEXT.fullmatch(text):
            raise ValueError(f"'{text}' is not a UUID of 22 base64 characters")
        return cls(base64.urlsafe_b64decode(text[:22] + "=="))

    @classmethod
    def random(cls) -> Self:
        """A version 4 UUID whose text does not begin with a dash, so that it can be a command's argument."""
        while True:
            raw = bytearray(os.urandom(16))
            raw[6] = (raw[6] & 0x0F) | 0x40
            raw[8] = (raw[8] & 0x3F) | 0x80
            uuid = cls(raw)
            if uuid not in RESERVED and not str(uuid).startswith("-"):
                return uuid


ZERO_UUID = Uuid(16)
ONE_UUID = Uuid(15 * b"\0" + b"\1")
RESERVED = frozenset(Uuid(15 * b"\0" + bytes([last])) for last in range(100))
