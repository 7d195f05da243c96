"""Connect's files: lines a second from a file into a topic, records a second from a topic into Parquet.

    python -m benchmarks.connect_files --records 300000

Turns run in one process without Spark, as one of its tasks does them: two tasks on two cores are at most twice that.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.connect.plane.orders import Job, Turn
from barnabas.pipelines.connect.plane.planner import Planner
from barnabas.pipelines.connect.plane.turns import run_turn
from barnabas.pipelines.connect.plugins import need
from barnabas.testing import Node

STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"


def timed(servers: str, name: str, settings: dict[str, str], records: int) -> str:
    """Records a second until all have gone through, and records for a second of this process's CPU."""
    plugin = need(settings["connector.class"], "source", "sink", setting="connector.class")
    full = {"key.converter": STRING, "value.converter": STRING} | settings
    job = Job(name=name, kind=plugin.type, place=plugin.place, settings=full, tasks=[full],
              client={"bootstrap.servers": servers}, group="bench", offsets_topic="bench-offsets")  # fmt: skip
    planner = Planner(lambda *_, **__: None)
    planner.start(job)
    done, spent, busy = 0, 0.0, 0.0
    while done < records:
        planner.running[name].tasks[0].due_at = 0.0
        turns: list[Turn] = planner.due([name])
        began, worked = time.perf_counter(), time.process_time()
        for turn in turns:
            outcome = run_turn(turn)
            if outcome.failed:
                raise SystemExit(outcome.trace)
            done += outcome.records
            planner.done(outcome)
        spent += time.perf_counter() - began
        busy += time.process_time() - worked
    planner.close()
    return f"{done / spent:,.0f} a second, {done / busy:,.0f} for a second of CPU"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=300_000)
    records = parser.parse_args().records
    with tempfile.TemporaryDirectory() as directory, Node() as node:
        servers = node.bootstrap_servers
        path = Path(directory) / "lines.txt"
        path.write_text("".join(f"{number:0100}\n" for number in range(records)))
        source = {"connector.class": "FileStreamSource", "file": str(path), "topic": "lines"}
        print(f"file source, lines of 100 bytes: {timed(servers, 'lines', source, records)}")
        with Producer(ClientSettings.from_properties({}, bootstrap_servers=servers)) as producer:
            for number in range(records):
                value = {"id": number, "name": f"name {number % 100}", "price": number / 7}
                producer.send("json", json.dumps(value).encode(), partition=0)
            producer.flush()
        sink = {"connector.class": "S3Sink", "directory": directory, "format.class": "ParquetFormat",
                "flush.size": str(min(records, 50_000)), "topics": "json", "value.converter": JSON,
                "value.converter.schemas.enable": "false", "rotate.schedule.interval.ms": "1"}  # fmt: skip
        print(f"Parquet sink, JSON of 3 fields: {timed(servers, 'parquet', sink, records)}")


if __name__ == "__main__":
    main()
