"""`kafka-log-dirs`: the brokers' log directories and what lies in them, as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from barnabas.cli.connect import CONNECTION_WITHOUT_LIST, OUTPUT, connect, wants_json
from barnabas.cli.errors import ToolFailed
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.output import print_json
from barnabas.client.admin.refusals import check
from barnabas.client.errors import known_code

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

PARSER = Parser(
    name="log-dirs",
    summary="Describes the brokers' log directories.",
    options=(
        *CONNECTION_WITHOUT_LIST,
        OUTPUT,
        option("--describe", help="Describe log directories."),
        option("--topic-list", takes="t,t", default="", help="Only these topics.", completes="topic"),
        option("--broker-list", takes="1,2", default="", help="Only these brokers.", completes="broker"),
    ),
)


def run(parsed: Parsed) -> int:
    if "bootstrap-server" not in parsed and "zookeeper" not in parsed:
        parsed.require("bootstrap-server")
    parsed.require("describe")
    with connect(parsed) as cluster:
        present = sorted(cluster.metadata([]).brokers)
        wanted = _brokers(parsed.text("broker-list") or "", present)
        topics = [name for name in (parsed.text("topic-list") or "").split(",") if name]
        found = [_describe(cluster, broker, topics) for broker in wanted]
    result = {"brokers": found, "version": 1}
    if wants_json(parsed):
        print_json(result)
        return 0
    print("Querying brokers for log directories information")
    print(f"Received log directory information from brokers {','.join(map(str, wanted))}")
    print(json.dumps(result, separators=(",", ":")))
    return 0


def _brokers(text: str, present: list[int]) -> list[int]:
    try:
        wanted = [int(part) for part in text.split(",") if part]
    except ValueError:
        raise ToolFailed(f"ERROR: {text} is not a list of brokers' ids.") from None
    if missing := [broker for broker in wanted if broker not in present]:
        raise ToolFailed(
            f"ERROR: The given brokers do not exist from --broker-list: {','.join(map(str, missing))}. "
            f"Current existent brokers: {','.join(map(str, present))}"
        )
    return wanted or present


def _describe(cluster: Cluster, broker: int, topics: list[str]) -> dict[str, Any]:
    from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest

    answer = cluster.ask_node(broker, DescribeLogDirsRequest(topics=None))
    check(answer.error_code)
    directories = []
    for result in answer.results:
        partitions = [
            {
                "partition": f"{topic.name}-{partition.partition_index}",
                "size": partition.partition_size,
                "offsetLag": partition.offset_lag,
                "isFuture": partition.is_future_key,
            }
            for topic in sorted(result.topics, key=lambda topic: str(topic.name))
            if not topics or topic.name in topics
            for partition in sorted(topic.partitions, key=lambda partition: int(partition.partition_index))
        ]
        error = known_code(result.error_code).name if result.error_code else None
        directories.append({"partitions": partitions, "error": error, "logDir": result.log_dir})
    return {"broker": broker, "logDirs": directories}
