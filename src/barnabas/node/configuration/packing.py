"""DescribeConfigs packed piece by piece: what all topics have in common is encoded once.

A tool that describes topics asks for the configs of all of them in one request. Their entries are the same but for a
few, so an entry is encoded once by the codec and its bytes are used for every topic.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.core.metadata.state import TOPIC_RESOURCE
from barnabas.node.requests import RawResponse
from barnabas.wire.codec import put_uvarint
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

NO_THROTTLE = bytes(4)
NO_TAGS = b"\0"


class Packer:
    """Of one version: from 4 on lengths are variable and tagged fields follow."""

    def __init__(self, version: int) -> None:
        self.version = version
        self._flexible = version >= DescribeConfigsResponse.flexible_since
        self._end = NO_TAGS if self._flexible else b""
        # No error, an empty message.
        self._success = b"\0\0\1" if self._flexible else bytes(4)

    def entry(self, entry: DescribeConfigsResourceResult) -> bytes:
        around = self.result(DescribeConfigsResult())
        within = self.result(DescribeConfigsResult(configs=[entry]))
        end = len(within) - len(self._end)
        return within[len(around) - len(self._end) : end]

    def result(self, result: DescribeConfigsResult) -> bytes:
        encoded = DescribeConfigsResponse(results=[result]).encode(self.version)
        begin = len(NO_THROTTLE) + len(self._length(1))
        return bytes(encoded[begin : len(encoded) - len(self._end)])

    def topic(self, name: str, entries: Sequence[bytes]) -> bytes:
        """The result of a topic whose entries are packed already."""
        return b"".join((self.head(name), self.tail(entries)))

    def head(self, name: str) -> bytes:
        text = name.encode()
        length = self._length(len(text)) if self._flexible else len(text).to_bytes(2, "big")
        return b"".join((self._success, bytes((TOPIC_RESOURCE,)), length, text))

    def tail(self, entries: Sequence[bytes]) -> bytes:
        return b"".join((self._length(len(entries)), *entries, self._end))

    def response(self, results: Sequence[bytes]) -> RawResponse:
        parts = [NO_THROTTLE + self._length(len(results)), *results, self._end]
        return RawResponse(parts, begins_with_throttle_time=True)

    def _length(self, count: int) -> bytes:
        if not self._flexible:
            return count.to_bytes(4, "big")
        out = bytearray()
        put_uvarint(out, count + 1)
        return bytes(out)
