"""EXPLAIN ... ON LAST n: a statement tried on the last records of its sources. Nothing is written anywhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.local import Given, LocalRun
from barnabas.pipelines.sql.plan.partitions import check_partitions
from barnabas.pipelines.sql.plan.planner import plan
from barnabas.pipelines.sql.server.answers import row_json
from barnabas.pipelines.sql.server.kafka import EARLIEST, LATEST, Kafka
from barnabas.pipelines.sql.server.pushes import as_given, shown_rows

if TYPE_CHECKING:
    from barnabas.pipelines.sql.server.service import SqlService

LAST_MAX = 1_000_000
SHOWN_MAX = 20
RECORDS_AT_ONCE = 5000
READ_WITHIN_S = 60
POLL_MS = 200


def tried(service: SqlService, statement: tree.Statement, last: int) -> dict[str, Any]:
    """Records, rows, rejects and cost, with the first rows and the first reasons."""
    if not isinstance(statement, (tree.SelectStatement, tree.CreateAs, tree.InsertSelect)):
        raise SqlError("EXPLAIN ... ON LAST is for SELECT, CREATE ... AS SELECT and INSERT INTO ... SELECT.")
    if not 1 <= last <= LAST_MAX:
        raise SqlError(f"ON LAST takes a number of records from 1 to {LAST_MAX}, not {last}.")
    with service.lock:
        metastore = service.engine.metastore.copy()
    log_topic = service.settings.log_topic
    planned = plan(metastore, statement.query, name="explained", log_topic=log_topic)
    check_partitions(metastore, planned, service.kafka.partitions)
    topics = sorted({metastore.source(name).topic for name in planned.sources})
    records = [one for topic in topics for one in last_records(service.kafka, topic, last)]
    records.sort(key=lambda one: one[3])  # by time, as far as one can
    partitions = {topic: service.kafka.partitions(topic) for topic in topics}
    run = LocalRun(planned.topology, partitions)
    rows: list[Any] = []
    rejects: list[str] = []
    begun = time.perf_counter()
    try:
        for at in range(0, len(records), RECORDS_AT_ONCE):
            for row in run.process(records[at : at + RECORDS_AT_ONCE]):
                if row["topic"] == log_topic:
                    rejects.append(reason_of(row["value"]))
                else:
                    rows.append(row)
    finally:
        run.close()
    took_s = time.perf_counter() - begun
    return {
        "records": len(records),
        "rows": len(rows),
        "rejected": len(rejects),
        "milliseconds": round(took_s * 1000, 1),
        "recordsPerSecond": round(len(records) / took_s) if took_s else 0,
        "columns": list(planned.names),
        "firstRows": [row_json(one, planned.kinds) for one in shown_rows(planned, rows[:SHOWN_MAX])],
        "firstRejects": list(dict.fromkeys(rejects))[:SHOWN_MAX],
    }


def last_records(kafka: Kafka, topic: str, last: int) -> list[Given]:
    """Of all partitions together, the latest by time; all of them if there are fewer."""
    starts, ends = kafka.offsets([topic], EARLIEST), kafka.offsets([topic], LATEST)
    if not ends:
        raise SqlError(f"Topic {topic} does not exist.")
    begin = {place: max(starts[place], end - last) for place, end in ends.items()}
    found: list[Given] = []
    deadline = time.monotonic() + READ_WITHIN_S
    with kafka.consumer() as consumer:
        consumer.assign(begin)
        while any(consumer.positions[place] < end for place, end in ends.items()):
            if time.monotonic() > deadline:
                raise SqlError(f"The last {last} records of topic {topic} were not read within {READ_WITHIN_S} s.")
            found += [as_given(one) for one in consumer.poll(POLL_MS) if one.offset < ends[one.topic, one.partition]]
    found.sort(key=lambda one: one[3])
    return found[-last:]


def reason_of(line: bytes) -> str:
    import json

    return str(json.loads(line)["message"]["deserializationError"]["errorMessage"])
