"""`kafka-delete-records`: deletes the records of partitions below given offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments.partition_files import entries, field, read_json
from barnabas.cli.connect import CONNECTION, OUTPUT, connect, wants_json
from barnabas.cli.errors import ToolFailed
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.output import print_json
from barnabas.client.admin.topics import delete_records
from barnabas.client.errors import Refused

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

PARSER = Parser(
    name="delete-records",
    summary="Deletes the records of partitions below given offsets.",
    options=(
        *CONNECTION,
        OUTPUT,
        option(
            "--offset-json-file",
            takes="file",
            completes="file",
            help='What to delete: {"partitions": [{"topic": "t", "partition": 0, "offset": 5}], "version": 1}; '
            "offset -1 is everything.",
        ),
    ),
)


def run(parsed: Parsed) -> int:
    parsed.require(*(name for name in ("bootstrap-server",) if "zookeeper" not in parsed))
    parsed.require("offset-json-file")
    offsets = _offsets(parsed.text("offset-json-file") or "")
    as_json = wants_json(parsed)
    if not as_json:
        print("Executing records delete operation")
    with connect(parsed) as cluster:
        results = [
            (topic, index, *_delete(cluster, topic, index, offset)) for (topic, index), offset in offsets.items()
        ]
    if as_json:
        names = ("topic", "partition", "lowWatermark", "error")
        print_json([dict(zip(names, result, strict=True)) for result in results])
        return 0
    print("Records delete operation completed:")
    for topic, index, low_watermark, error in results:
        print(f"partition: {topic}-{index}\t{f'error: {error}' if error else f'low_watermark: {low_watermark}'}")
    return 0


def _offsets(path: str) -> dict[tuple[str, int], int]:
    content: Any = read_json(path)
    version = content.get("version", 1) if isinstance(content, dict) else 1
    if version != 1:
        raise ToolFailed(f"Not supported version field value {version}")
    if not isinstance(content, dict) or "partitions" not in content:
        raise ToolFailed("Missing partitions field")
    offsets: dict[tuple[str, int], int] = {}
    for entry in entries(content, "partitions", path):
        key = field(entry, "topic", str, path), field(entry, "partition", int, path)
        if key in offsets:
            raise ToolFailed(f"Offset json file contains duplicate topic partitions: {key[0]}-{key[1]}")
        offsets[key] = field(entry, "offset", int, path)
    return offsets


def _delete(cluster: Cluster, topic: str, index: int, offset: int) -> tuple[int | None, str | None]:
    try:
        return delete_records(cluster, topic, index, offset), None
    except Refused as refusal:
        return None, str(refusal)
