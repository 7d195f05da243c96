"""Offsets of groups, set and deleted by an administrator: what is done, and what is told of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from barnabas.cli.connect import wants_json
from barnabas.cli.groups import offset_plans, tables
from barnabas.cli.options import Parsed
from barnabas.cli.output import print_json
from barnabas.client.admin.groups import DEAD, EMPTY, commit_offsets, committed_offsets, delete_offsets, describe_group
from barnabas.client.metadata import TopicPartition
from barnabas.wire.errors import ErrorCode, sentence_of

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

OF_PARTITIONS = (
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


def reset(cluster: Cluster, parsed: Parsed, groups: list[str]) -> None:
    if "execute" not in parsed and "dry-run" not in parsed:
        print("WARN: No action will be performed as the --execute option is missing.", file=sys.stderr)
    file = parsed.text("from-file")
    plan = offset_plans.plan_of_file(file, groups) if file else None
    chosen: dict[str, dict[TopicPartition, int]] = {}
    for group in groups:
        state = describe_group(cluster, group).state
        if state not in (EMPTY, DEAD):
            print(
                f"\nError: Assignments can only be reset if the group '{group}' is inactive, "
                f"but the current state is {state}."
            )
            chosen[group] = {}
        elif plan is not None and group not in plan:
            print(f"\nError: No reset plan for group {group} found")
            chosen[group] = {}
        else:
            chosen[group] = _new_offsets(cluster, parsed, group, None if plan is None else plan[group])
            if "execute" in parsed:
                commit_offsets(cluster, group, chosen[group])
    _tell_reset(parsed, chosen)


def _new_offsets(
    cluster: Cluster, parsed: Parsed, group: str, plan: dict[TopicPartition, int] | None
) -> dict[TopicPartition, int]:
    if plan is not None:
        return offset_plans.in_range(cluster, plan)

    def committed() -> dict[TopicPartition, int]:
        return {partition: at.offset for partition, at in committed_offsets(cluster, group).items()}

    if "all-topics" in parsed:
        partitions = list(committed())
    else:
        partitions = offset_plans.topic_partitions(cluster, parsed.texts("topic"))
    return offset_plans.planned_offsets(cluster, parsed, partitions, committed)


def _tell_reset(parsed: Parsed, chosen: dict[str, dict[TopicPartition, int]]) -> None:
    rows = [(group, *partition, offset) for group, plan in chosen.items() for partition, offset in sorted(plan.items())]
    if wants_json(parsed):
        names = ("group", "topic", "partition", "new_offset")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    elif "export" in parsed:
        single = len(parsed.texts("group")) == 1
        for group, topic, index, offset in rows:
            print(f"{topic},{index},{offset}" if single else f"{group},{topic},{index},{offset}")
        print()
    else:
        tables.print_reset(chosen)


def delete(cluster: Cluster, parsed: Parsed) -> None:
    group = parsed.text("group") or ""
    topics = parsed.texts("topic")
    known = cluster.metadata({topic.partition(":")[0] for topic in topics}).topics
    missing = [topic for topic in topics if ":" not in topic and (topic not in known or known[topic].error)]
    partitions = [
        (name, int(index))
        for name, _, indexes in (topic.partition(":") for topic in topics if topic not in missing)
        for index in (indexes.split(",") if indexes else known[name].partitions)
    ]
    code, results = delete_offsets(cluster, group, partitions)
    results |= {(topic, -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for topic in missing}
    worst = code or next((each for each in results.values() if each), ErrorCode.NONE)
    if wants_json(parsed):
        print_json(
            {
                "group": group,
                "error": code.name if code else None,
                "partitions": [
                    {"topic": topic, "partition": index, "error": each.name if each else None}
                    for (topic, index), each in sorted(results.items())
                ],
            }
        )
        return
    _tell_deleted(group, worst)
    _print_deleted(results, partitions, code)


def _tell_deleted(group: str, code: ErrorCode) -> None:
    if not code:
        print(f"Request succeeded for deleting offsets from group {group}.")
    elif code in OF_PARTITIONS:
        print("\nError: Encountered some partition-level error, see the follow-up details.")
    else:
        print(f"\nError: {sentence_of(code)}")


def _print_deleted(results: dict[TopicPartition, ErrorCode], partitions: list[TopicPartition], code: ErrorCode) -> None:
    everything = {partition: results.get(partition, code) for partition in partitions} | results
    width = max([15, *(len(topic) for topic, _ in everything)])
    print(f"\n{'TOPIC':<{width}} {'PARTITION':<10} {'STATUS':<15}")
    for (topic, index), each in sorted(everything.items()):
        status = f"Error: {sentence_of(each)}" if each else "Successful"
        print(f"{topic:<{width}} {'-' if index < 0 else str(index):<10} {status:<15}")
