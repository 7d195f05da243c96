"""`kafka-leader-election`: has leaders of partitions elected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments.partition_files import entries, field, read_json
from barnabas.cli.connect import CONNECTION, OUTPUT, connect, wants_json
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.output import print_json
from barnabas.client.admin.refusals import check, words
from barnabas.client.errors import Refused, known_code
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

TYPES = {"preferred": 0, "unclean": 1}
CHOICE = ("topic", "all-topic-partitions", "path-to-json-file")
TIMEOUT_MS = 60_000
Partitions = list[tuple[str, int]]

PARSER = Parser(
    name="leader-election",
    summary="Has leaders of partitions elected: the preferred replicas, or any replica where no leader is left.",
    options=(
        *CONNECTION,
        OUTPUT,
        option("--election-type", takes="type", help="preferred, or unclean: replicas that are not in sync may lead."),
        option("--topic", takes="topic", help="The topic.", completes="topic"),
        option("--partition", takes="number", kind=int, help="The partition of the topic."),
        option("--all-topic-partitions", help="All partitions that need it."),
        option(
            "--path-to-json-file",
            takes="file",
            completes="file",
            help='The partitions: {"partitions": [{"topic": "t", "partition": 0}]}.',
        ),
    ),
)


def run(parsed: Parsed) -> int:
    _check(parsed)
    kind = (parsed.text("election-type") or "").lower()
    if kind not in TYPES:
        raise UsageError(f"Cannot parse argument '{parsed.text('election-type')}' of option election-type")
    partitions = _partitions(parsed)
    try:
        with connect(parsed) as cluster:
            results = _elect(cluster, TYPES[kind], partitions)
    except Refused as refusal:
        raise ToolFailed(refusal.message) from None
    return _tell(parsed, kind.upper(), results)


def _check(parsed: Parsed) -> None:
    missing = [name for name in ("bootstrap-server", "election-type") if name not in parsed]
    if "zookeeper" in parsed and "bootstrap-server" in missing:
        missing.remove("bootstrap-server")
    if missing:
        raise ToolFailed(f"Missing required option(s): {', '.join(missing)}")
    if sum(name in parsed for name in CHOICE) != 1:
        raise ToolFailed(f"One and only one of the following options is required: {', '.join(CHOICE)}")
    if "partition" in parsed and "topic" not in parsed:
        raise ToolFailed("Option partition is only allowed if topic is used")
    if "topic" in parsed and "partition" not in parsed:
        raise ToolFailed("Missing required option(s): partition")


def _partitions(parsed: Parsed) -> Partitions | None:
    if "all-topic-partitions" in parsed:
        return None
    topic = parsed.text("topic")
    if topic is not None:
        return [(topic, parsed.number("partition") or 0)]
    path = parsed.text("path-to-json-file") or ""
    content: Any = read_json(path)
    if not isinstance(content, dict) or "partitions" not in content:
        raise ToolFailed('Replica election data is missing "partitions" field')
    listed = [
        (field(each, "topic", str, path), field(each, "partition", int, path))
        for each in entries(content, "partitions", path)
    ]
    if twice := sorted({each for each in listed if listed.count(each) > 1}):
        names = ", ".join(f"{topic}-{index}" for topic, index in twice)
        raise ToolFailed(f"Replica election data contains duplicate partitions: [{names}]")
    return listed


def _elect(cluster: Cluster, kind: int, partitions: Partitions | None) -> dict[tuple[str, int], tuple[int, str]]:
    from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

    topics: dict[str, list[int]] = {}
    for topic, index in partitions or []:
        topics.setdefault(topic, []).append(index)
    asked = [TopicPartitions(topic=topic, partitions=each) for topic, each in topics.items()]
    request = ElectLeadersRequest(
        election_type=kind, topic_partitions=None if partitions is None else asked, timeout_ms=TIMEOUT_MS
    )
    answer = cluster.ask_controller(request)
    check(answer.error_code)
    return {
        (topic.topic, result.partition_id): (result.error_code, words(result.error_code, result.error_message))
        for topic in answer.replica_election_results
        for result in topic.partition_result
    }


def _tell(parsed: Parsed, kind: str, results: dict[tuple[str, int], tuple[int, str]]) -> int:
    elected = [each for each, (code, _) in sorted(results.items()) if not code]
    not_needed = [each for each, (code, _) in sorted(results.items()) if code == ErrorCode.ELECTION_NOT_NEEDED]
    failed = {each: why for each, why in results.items() if each not in elected and each not in not_needed}
    if wants_json(parsed):
        print_json(
            [
                {"topic": topic, "partition": index, "error": known_code(code).name if code else None}
                for (topic, index), (code, _) in sorted(results.items())
            ]
        )
    else:
        if elected:
            print(f"Successfully completed leader election ({kind}) for partitions {_listed(elected)}")
        if not_needed:
            print(f"Valid replica already elected for partitions {_listed(not_needed)}")
        for (topic, index), (code, why) in sorted(failed.items()):
            name = known_code(code).name
            print(f"Error completing leader election ({kind}) for partition: {topic}-{index}: {why} ({name})")
    if failed:
        raise ToolFailed(f"{len(failed)} replica(s) could not be elected")
    return 0


def _listed(partitions: Partitions) -> str:
    return ", ".join(f"{topic}-{index}" for topic, index in partitions)
