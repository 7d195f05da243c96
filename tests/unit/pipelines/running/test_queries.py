"""How many records a batch has read, by what Spark reports of it."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.pipelines.running.queries import records_read

UNPINNED = {"$unpinned": True}


def source(rows: int, start: Any, end: Any) -> dict[str, Any]:
    return {"numInputRows": rows, "startOffset": start, "endOffset": end}


@pytest.mark.parametrize(
    ("sources", "records"),
    [
        # A line of seven words leaves the first stage of a topology in four parcels.
        ([source(4, {"lines": {"0": 5}}, {"lines": {"0": 6}})], 1),
        # The first batch, of partitions that begin somewhere.
        ([source(9, UNPINNED, {"t": {"0": 7, "1": 3}, "$first": {"t": {"0": 5, "1": 3}}})], 2),
        # Read twice, by two sinks in one foreachBatch.
        ([source(20, {"t": {"0": 0}}, {"t": {"0": 10}})], 10),
        # Fewer records than offsets, of a compacted topic or with the markers of transactions.
        ([source(3, {"t": {"0": 0}}, {"t": {"0": 10}})], 3),
        # A partition that is new, and of which nobody says where it begins: as Spark counted.
        ([source(3, {"t": {"0": 0}}, {"t": {"0": 1, "1": 9}})], 3),
        # Another kind of source, beside one of topics.
        ([source(5, 1, 2), source(8, {"t": {"0": 0}}, {"t": {"0": 2}})], 7),
        ([source(5, None, "x")], 5),
    ],
)
def test_there_are_not_more_records_than_offsets(sources: list[dict[str, Any]], records: int) -> None:
    assert records_read({"sources": sources}) == records
