"""What runs in the workers: dead letters are sent, or the first one stops the task. Imported with Arrow, by need."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings

ERROR_HEADERS = "__barnabas.errors."


class UnreadableRecord(ValueError):
    """A record that can't be read, and no topic for dead letters is given."""


class Post:
    """What runs in the workers; it is pickled to them."""

    def __init__(self, reason: Callable[[bytes | None], str], address: tuple[str, dict[str, str]] | None) -> None:
        self._reason = reason
        self._address = address

    def deliver(self, letters: pa.Array) -> pa.Array:
        """True for each row that is no dead letter."""
        readable = letters.is_null()
        if letters.null_count < len(letters):
            self._send(letter for letter in letters.to_pylist() if letter is not None)
        return readable

    def _send(self, letters: Iterable[dict[str, Any]]) -> None:
        deliveries = []
        for letter in letters:
            why = self._reason(letter["value"])
            place = f"offset {letter['offset']} of {letter['topic']}-{letter['partition']}"
            sentence = f"the record at {place} can't be read: {why}"
            if self._address is None:
                raise UnreadableRecord(sentence)
            topic, properties = self._address
            headers = [(header["key"], header["value"]) for header in letter.get("headers") or ()]
            headers += [
                (ERROR_HEADERS + "message", sentence.encode()),
                (ERROR_HEADERS + "topic", letter["topic"].encode()),
                (ERROR_HEADERS + "partition", str(letter["partition"]).encode()),
                (ERROR_HEADERS + "offset", str(letter["offset"]).encode()),
            ]
            deliveries.append(_producer(properties).send(topic, letter["value"], letter["key"], headers))
        for delivery in deliveries:
            delivery.result()


_producers: dict[tuple[int, frozenset[tuple[str, str]]], Producer] = {}


def _producer(properties: Mapping[str, str]) -> Producer:
    """One per process and configuration; its thread does not survive a fork, so a child makes its own."""
    key = (os.getpid(), frozenset(properties.items()))
    if key not in _producers:
        _producers[key] = Producer(ClientSettings.from_properties(properties))
    return _producers[key]
