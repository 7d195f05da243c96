"""A batch of values as they lie in Arrow's buffers, and which of them begin with which schema's id."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from barnabas.client.serdes.framing import PREFIX

NO_SCHEMA = b""
BIG_ENDIAN = np.array([256**place for place in reversed(range(PREFIX.size))], np.int64)


class Values:
    """Nothing is copied, and no value becomes an object, unless `rows` are asked for."""

    def __init__(self, values: pa.Array) -> None:
        wide = pa.types.is_large_binary(values.type)
        _, offsets, data = values.buffers()
        self._values = values
        self.data: Any = np.frombuffer(data or b"", np.uint8)
        if offsets is None or not len(values):
            edges: Any = np.zeros(len(values) + 1, np.int64)
        else:
            first = values.offset
            edges = np.frombuffer(offsets, np.int64 if wide else np.int32)[first : first + len(values) + 1]
        self.starts: Any = edges[:-1].astype(np.int64)
        self.ends: Any = edges[1:].astype(np.int64)

    def by_schema(self) -> dict[bytes, Any]:
        """Places of the values by the id they begin with; tombstones and what is too short have none."""
        sized = self.ends - self.starts >= PREFIX.size
        if self._values.null_count:
            sized &= self._values.is_valid().to_numpy(zero_copy_only=False)
        found: dict[bytes, Any] = {}
        bare = np.flatnonzero(~sized)
        if len(bare):
            found[NO_SCHEMA] = bare
        framed = np.flatnonzero(sized) if len(bare) else np.arange(len(sized))
        if not len(framed):
            return found
        numbers = self.data[self.starts[framed][:, None] + np.arange(PREFIX.size)] @ BIG_ENDIAN
        if (numbers == numbers[0]).all():
            found[int(numbers[0]).to_bytes(PREFIX.size, "big")] = framed
            return found
        order = np.argsort(numbers, kind="stable")
        each, begins = np.unique(numbers[order], return_index=True)
        for number, places in zip(each, np.split(order, begins[1:]), strict=True):
            found[int(number).to_bytes(PREFIX.size, "big")] = framed[places]
        return found

    def rows(self, places: Any) -> list[bytes | None]:
        found: list[bytes | None] = self._values.take(pa.array(places)).to_pylist()
        return found
