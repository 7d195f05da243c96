"""A dry run: a connector's real records, converted and transformed, without writing any of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from barnabas.client.cluster import Cluster
from barnabas.client.fetcher import Fetcher, FetchSettings
from barnabas.client.records import iterate_records
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.connect.connector import SourceConnector
from barnabas.pipelines.connect.data.header_values import write
from barnabas.pipelines.connect.errors import ConnectError
from barnabas.pipelines.connect.plane.conversion import Conversion
from barnabas.pipelines.connect.plane.orders import Job
from barnabas.pipelines.connect.plane.planner import sink_partitions
from barnabas.pipelines.connect.plane.tolerance import Tolerance
from barnabas.pipelines.connect.plane.turns import END, FETCH_WAIT_MS
from barnabas.pipelines.connect.plugins import need

WAIT_S = 10.0
EARLIEST = -2


class Rehearsed(NamedTuple):
    """What would be written for one record; `error` if it would fail, neither if a transformation drops it."""

    place: str
    key: str | None = None
    value: str | None = None
    error: str | None = None


def rehearse(settings: Mapping[str, str], client: Mapping[str, str], limit: int) -> Iterator[Rehearsed]:
    """Sources begin without offsets, sinks at the beginning of their topics; neither offsets nor groups change."""
    plugin = need(settings["connector.class"], "source", "sink", setting="connector.class")
    kind = plugin.load()
    own = settings | kind.task_settings(dict(settings), 1)[0]
    connector = kind(own, name=settings.get("name", ""))
    tolerance = Tolerance({}, name=settings.get("name", ""), task=0, sleep=time.sleep)
    conversion = Conversion(own, tolerance)
    if isinstance(connector, SourceConnector):
        yield from _source(connector, conversion, limit)
        return
    job = Job(name=settings.get("name", ""), kind="sink", place="", settings=dict(settings), tasks=[],
              client=dict(client))  # fmt: skip
    yield from _sink(job, conversion, limit)


def _source(source: SourceConnector, conversion: Conversion, limit: int) -> Iterator[Rehearsed]:
    count = 0
    try:
        source.start({})
        while count < limit:
            records = source.poll()
            if not records:
                return
            for record in records[: limit - count]:
                count += 1
                try:
                    sent = conversion.to_topic(record)
                except ConnectError as error:
                    yield Rehearsed(record.topic, error=_why(error))
                    continue
                yield Rehearsed(record.topic) if sent is None else Rehearsed(sent[0], _text(sent[1]), _text(sent[2]))
    finally:
        source.close()


def _sink(job: Job, conversion: Conversion, limit: int) -> Iterator[Rehearsed]:
    count = 0
    properties = {"isolation.level": "read_committed"} | job.client
    with Cluster(ClientSettings.from_properties(job.client)) as cluster:
        partitions = sink_partitions(cluster, job)
        if not partitions:
            raise ConnectError("none of the connector's topics is there")
        settings = FetchSettings.from_properties(properties)
        start = {tp: each.offset for tp, each in cluster.list_offsets(dict.fromkeys(partitions, EARLIEST)).items()}
        ends = cluster.list_offsets(dict.fromkeys(partitions, END), isolation=settings.isolation)
        until = time.monotonic() + WAIT_S
        with Fetcher(cluster, settings) as fetcher:
            fetcher.assign(start)
            while any(fetcher.positions[tp] < end.offset for tp, end in ends.items()) and time.monotonic() < until:
                for given in (each for batch in fetcher.poll(FETCH_WAIT_MS) for each in iterate_records(batch)):
                    if count >= limit:
                        return
                    count += 1
                    place = f"{given.topic}-{given.partition}@{given.offset}"
                    try:
                        record = conversion.from_topic(given)
                    except ConnectError as error:
                        yield Rehearsed(place, error=_why(error))
                        continue
                    yield (
                        Rehearsed(place)
                        if record is None
                        else Rehearsed(place, _shown(record.key), _shown(record.value))
                    )


def _shown(value: Any) -> str | None:
    return None if value is None else write(value)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


def _why(error: ConnectError) -> str:
    return str(getattr(error, "cause", error))
