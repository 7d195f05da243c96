"""Streams groups changed by an administrator: offsets set and deleted, groups and their internal topics deleted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.cli.connect import wants_json
from barnabas.cli.groups import offset_plans
from barnabas.cli.options import Parsed
from barnabas.cli.output import print_json
from barnabas.client.admin.groups import commit_offsets, committed_offsets, delete_group, delete_offsets
from barnabas.client.admin.refusals import words
from barnabas.client.admin.streams_groups import describe_streams_group, list_streams_groups
from barnabas.client.errors import Refused
from barnabas.client.metadata import TopicPartition
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

INTERNAL = re.compile(
    r".+-(changelog|repartition|subscription-registration-topic|subscription-response-topic"
    r"|KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic)"
)
OF_THE_GROUP = (
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.NON_EMPTY_GROUP,
)
OF_PARTITIONS = (
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


WORDS = {
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."
    ),
}


def _why(code: ErrorCode) -> str:
    return WORDS.get(code) or words(code)


def tell_error(text: str) -> None:
    print(f"\nError: {text}")


# Offsets


def reset(cluster: Cluster, parsed: Parsed, groups: list[str]) -> None:
    file = parsed.text("from-file")
    plan = offset_plans.plan_of_file(file, groups) if file else None
    chosen: dict[str, dict[TopicPartition, int]] = {}
    for group in groups:
        state = _state(cluster, group)
        if state not in ("Empty", "Dead"):
            chosen[group] = {}
            tell_error(
                f"Assignments can only be reset if the group '{group}' is inactive, but the current state is {state}."
            )
            continue
        if plan is not None and group not in plan:
            tell_error(f"No reset plan for group {group} found")
            chosen[group] = {}
            continue
        chosen[group] = _new_offsets(cluster, parsed, group, None if plan is None else plan[group])
        if "execute" in parsed:
            commit_offsets(cluster, group, chosen[group])
            _delete_internal(cluster, parsed, group)
    _tell_reset(parsed, chosen)


def _state(cluster: Cluster, group: str) -> str:
    try:
        return describe_streams_group(cluster, group).state
    except Refused as refusal:
        if refusal.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return "Dead"
        raise


def _new_offsets(
    cluster: Cluster, parsed: Parsed, group: str, plan: dict[TopicPartition, int] | None
) -> dict[TopicPartition, int]:
    if plan is not None:
        return offset_plans.in_range(cluster, plan)
    committed = {partition: at.offset for partition, at in committed_offsets(cluster, group).items()}
    if "all-input-topics" in parsed:
        partitions = input_partitions(cluster, group)
    else:
        partitions = offset_plans.topic_partitions(cluster, parsed.texts("input-topic"))
        if any(each not in committed for each in partitions):
            tell_error(f"One or more topics are not part of the group '{group}'.")
            partitions = []
    return offset_plans.planned_offsets(cluster, parsed, partitions, lambda: committed)


def input_partitions(cluster: Cluster, group: str) -> list[TopicPartition]:
    """Those of source topics that the group has committed offsets of."""
    sources = describe_streams_group(cluster, group).source_topics
    return [at for at in committed_offsets(cluster, group) if at[0] in sources]


def _tell_reset(parsed: Parsed, chosen: dict[str, dict[TopicPartition, int]]) -> None:
    rows = [(group, *at, offset) for group, offsets in chosen.items() for at, offset in sorted(offsets.items())]
    if wants_json(parsed):
        names = ("group", "topic", "partition", "new_offset")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    if "export" in parsed:
        is_single = len(parsed.texts("group")) == 1
        for row in rows:
            print(",".join(map(str, row[1:] if is_single else row)))
        print()
        return
    for cells in [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), *rows] if chosen else []:
        print("\n{:<30} {:<30} {:<10} {:<15}".format(*cells), end="")
    print()


def delete_group_offsets(cluster: Cluster, parsed: Parsed) -> None:
    (group,) = parsed.texts("group")
    missing: list[str] = []
    if "all-input-topics" in parsed:
        partitions = input_partitions(cluster, group)
    else:
        named = [each.partition(":") for each in dict.fromkeys(parsed.texts("input-topic"))]
        known = cluster.metadata({name for name, _, _ in named}).topics
        missing = [name for name, colon, _ in named if not colon and (name not in known or known[name].error)]
        wanted = [each[0] + each[1] + each[2] for each in named if each[0] not in missing]
        partitions = offset_plans.topic_partitions(cluster, wanted)
    code, results = delete_offsets(cluster, group, partitions)
    everything = {at: results.get(at, code) for at in partitions}
    everything |= {(name, -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for name in missing}
    worst = code or next((each for each in results.values() if each), ErrorCode.NONE)
    if wants_json(parsed):
        errors = [
            {"topic": topic, "partition": index, "error": each.name if each else None}
            for (topic, index), each in sorted(everything.items())
        ]
        print_json({"group": group, "error": code.name if code else None, "partitions": errors})
        return
    _tell_deleted(group, worst)
    width = max([15, *(len(topic) for topic, _ in everything)])
    print(f"\n{'TOPIC':<{width}} {'PARTITION':<10} {'STATUS':<15}", end="")
    for (topic, index), each in sorted(everything.items()):
        status = f"Error: {_why(each)}" if each else "Successful"
        print(f"\n{topic:<{width}} {'-' if index < 0 else str(index):<10} {status:<15}", end="")
    print()


def _tell_deleted(group: str, code: ErrorCode) -> None:
    if not code:
        print(f"Request succeeded for deleting offsets from group {group}.")
    elif code in OF_THE_GROUP:
        tell_error(_why(code))
    elif code in OF_PARTITIONS:
        tell_error("Encountered some partition-level error, see the follow-up details.")
    else:
        tell_error(f"Encountered some unknown error: {code.name}")


# Groups and internal topics


def delete_groups(cluster: Cluster, parsed: Parsed, groups: list[str]) -> int:
    listed = {each.group: each.state for each in list_streams_groups(cluster)}
    failed: dict[str, str] = {}
    deleted: list[str] = []
    internal: dict[str, list[str]] = {}
    for group in groups:
        if group not in listed:
            failed[group] = f"Group '{group}' does not exist or is not a streams group."
        elif listed[group] != "Empty":
            failed[group] = f"Streams group '{group}' is not EMPTY."
        else:
            if "delete-all-internal-topics" in parsed:
                internal[group] = _internal_topics(cluster, group)
            code = delete_group(cluster, group)
            if code:
                failed[group] = _why(code)
            else:
                deleted.append(group)
    if wants_json(parsed):
        print_json([{"group": group, "error": failed.get(group)} for group in groups])
    else:
        _tell_deleted_groups(deleted, failed)
    return _delete_topics_of(cluster, {group: internal[group] for group in deleted if internal.get(group)})


def _tell_deleted_groups(deleted: list[str], failed: dict[str, str]) -> None:
    named = ", ".join(f"'{group}'" for group in deleted)
    if not failed:
        print(f"Deletion of requested streams groups ({named}) was successful.")
        return
    tell_error("Deletion of some streams groups failed:")
    for group, why in failed.items():
        print(f"* Group '{group}' could not be deleted due to: {why}")
    if deleted:
        print(f"\nThese streams groups were deleted successfully: {named}.")


def _delete_topics_of(cluster: Cluster, internal: dict[str, list[str]]) -> int:
    from barnabas.client.admin.topics import delete_topics

    failed: dict[str, str] = {}
    for group, names in internal.items():
        try:
            delete_topics(cluster, names)
        except Refused as refusal:
            failed[group] = str(refusal)
    if failed:
        print("Deletion of some associated internal topics failed:")
        for group, why in failed.items():
            print(f"* Internal topics of the streams group '{group}' could not be deleted due to: {why}")
    elif internal:
        named = ", ".join(f"'{group}'" for group in internal)
        print(f"Deletion of associated internal topics of the streams groups ({named}) was successful.")
    return 0


def _internal_topics(cluster: Cluster, group: str) -> list[str]:
    """Those that begin with the group's name and end as internal topics do; others are not deleted, and told."""
    names = describe_streams_group(cluster, group).internal_topics
    for name in names:
        if not _is_internal(name, group):
            tell_error(
                f"The internal topic '{name}' is not inferred as internal and thus will not be deleted with the group"
                f" '{group}'."
            )
    return [name for name in names if _is_internal(name, group)]


def _is_internal(name: str, group: str) -> bool:
    return name.startswith(f"{group}-") and INTERNAL.fullmatch(name) is not None


def _delete_internal(cluster: Cluster, parsed: Parsed, group: str) -> None:
    from barnabas.client.admin.topics import delete_topics

    names: Iterable[str] = ()
    if "delete-all-internal-topics" in parsed:
        names = _internal_topics(cluster, group)
    elif "delete-internal-topic" in parsed:
        names = parsed.texts("delete-internal-topic")
    try:
        delete_topics(cluster, names)
    except Refused as refusal:
        why = f"failed due to {refusal}"
        if refusal.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            why = "failed because the topics do not exist."
        tell_error(f"Deleting internal topics for group '{group}' {why}")
