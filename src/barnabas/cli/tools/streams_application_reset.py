"""`kafka-streams-application-reset`: a streams application begins anew.

Offsets of its input topics are reset, and the topics that it made for itself are deleted. Its local state is its own
business: `KafkaStreams#cleanUp`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from barnabas.cli.connect import BOOTSTRAP_SERVER, bootstrap, properties_of
from barnabas.cli.deprecations import either, older
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.groups import offset_plans
from barnabas.cli.options import Parsed, Parser, option
from barnabas.client.admin.groups import DEAD, EMPTY, commit_offsets, committed_offsets, describe_group

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.metadata import TopicPartition

# What Kafka Streams puts at the end of the names of its topics.
INTERNAL_ENDINGS = (
    "-changelog",
    "-repartition",
    "-subscription-registration-topic",
    "-subscription-response-topic",
)

PARSER = Parser(
    name="streams-application-reset",
    summary="Resets the offsets of a streams application's input topics, and deletes its internal topics.",
    options=(
        BOOTSTRAP_SERVER,
        option("--application-id", takes="id", help="The application's application.id."),
        option("--input-topics", takes="topic,...", repeated=True, help="Topics to be read again.", completes="topic"),
        option("--intermediate-topics", takes="topic,...", repeated=True, help="Topics to be skipped to their end."),
        option("--internal-topics", takes="topic,...", repeated=True, help="Delete only these internal topics."),
        option("--dry-run", help="Tell only what would be done."),
        option("--force", help="Remove the group's members first."),
        option("--command-config", takes="file", help="A file with the client's properties.", completes="file"),
        older("config-file", "command-config", "file", completes="file"),
        *(each for each in offset_plans.SCENARIOS if each.name != "to-current"),
    ),
)
SCENARIOS = tuple(name for name in offset_plans.SCENARIO_NAMES if name != "to-current")


def run(parsed: Parsed) -> int:
    if "application-id" not in parsed:
        raise UsageError("Missing required option(s) [application-id]")
    offset_plans.refuse_several(parsed, SCENARIOS)
    from barnabas.client.cluster import Cluster
    from barnabas.client.settings import ClientSettings, read_properties

    properties = properties_of(parsed)
    for path in either(parsed, "command-config", "config-file"):
        properties |= read_properties(path)
    settings = ClientSettings.from_properties(
        properties, bootstrap_servers=bootstrap(parsed, missing=None), client_id="streams-application-reset"
    )
    with Cluster(settings) as cluster:
        return _reset(cluster, parsed)


def _reset(cluster: Cluster, parsed: Parsed) -> int:
    application = parsed.text("application-id") or ""
    dry = "dry-run" in parsed
    _require_no_members(cluster, application, force="force" in parsed, dry=dry)
    if "intermediate-topics" in parsed:
        print("WARN: `--intermediate-topics` is deprecated and will be removed in a future release")
    if dry:
        print("----Dry run displays the actions which will be performed when running Streams Reset Tool----")
    topics = cluster.metadata().topics
    missing = _reset_offsets(cluster, parsed, application, set(topics), dry=dry)
    internal = _to_delete(parsed, application, list(topics))
    given = "specified" if "internal-topics" in parsed else "inferred"
    print(f"Deleting {given} internal topics [{', '.join(internal)}]")
    if not dry:
        _delete(cluster, internal)
    print("Done.")
    return 1 if missing else 0


def _require_no_members(cluster: Cluster, application: str, *, force: bool, dry: bool) -> None:
    state = describe_group(cluster, application).state
    if state in (EMPTY, DEAD):
        return
    if not force:
        raise ToolFailed(
            f"Consumer group '{application}' is still active. Make sure to stop all running application instances "
            "before running the reset tool. You can use option '--force' to remove active members from the group."
        )
    print("Force deleting all active members in the group: " + application)
    if not dry:
        _remove_members(cluster, application)


def _remove_members(cluster: Cluster, group: str) -> None:
    from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity

    members = [
        MemberIdentity(
            member_id="" if member.instance_id else member.member_id,
            group_instance_id=member.instance_id,
            reason="removed by streams-application-reset",
        )
        for member in describe_group(cluster, group).members
    ]
    answer = cluster.ask_coordinator("group", group, LeaveGroupRequest(group_id=group, members=members))
    if answer.error_code:
        from barnabas.client.errors import Refused

        raise Refused(answer.error_code, f"The members of {group} were not removed")


def _split(texts: list[str]) -> list[str]:
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def _reset_offsets(cluster: Cluster, parsed: Parsed, group: str, known: set[str], *, dry: bool) -> list[str]:
    """Sets the offsets of what is there; the topics that are not are returned."""
    inputs, between = _split(parsed.texts("input-topics")), _split(parsed.texts("intermediate-topics"))
    if not inputs and not between:
        print("No input or intermediate topics specified. Skipping seek.")
        return []
    if inputs:
        print(f"Reset-offsets for input topics [{', '.join(inputs)}]")
    if between:
        print(f"Seek-to-end for intermediate topics [{', '.join(between)}]")
    missing: list[str] = []
    for kind, names in (("input", inputs), ("intermediate", between)):
        gone = [name for name in names if name not in known]
        if gone:
            print(f"Following {kind} topics are not found, skipping them")
            for name in gone:
                print(f"Topic: {name}")
        missing += gone
    offsets = _input_offsets(cluster, parsed, group, [name for name in inputs if name in known])
    ends = _partitions(cluster, [name for name in between if name in known])
    if ends:
        skipped = offset_plans.offsets_at(cluster, ends, offset_plans.LATEST)
        print(f"Following intermediate topics offsets will be reset to end (for consumer group {group})")
        for name in dict.fromkeys(topic for topic, _ in skipped):
            print(f"Topic: {name}")
        offsets |= skipped
    if offsets and not dry:
        commit_offsets(cluster, group, offsets)
    print("Done.")
    return missing


def _input_offsets(cluster: Cluster, parsed: Parsed, group: str, inputs: list[str]) -> dict[TopicPartition, int]:
    partitions = _partitions(cluster, inputs)
    if not partitions:
        return {}
    if "from-file" in parsed:
        plan = offset_plans.plan_of_file(parsed.text("from-file") or "", [group]).get(group, {})
        chosen = offset_plans.in_range(cluster, {each: plan[each] for each in partitions if each in plan})
    elif any(name in parsed for name in SCENARIOS):

        def committed() -> dict[TopicPartition, int]:
            return {each: at.offset for each, at in committed_offsets(cluster, group).items()}

        chosen = offset_plans.planned_offsets(cluster, parsed, partitions, committed)
    else:
        chosen = offset_plans.offsets_at(cluster, partitions, offset_plans.EARLIEST)
    print(f"Following input topics offsets will be reset to (for consumer group {group})")
    for (topic, index), offset in chosen.items():
        print(f"Topic: {topic} Partition: {index} Offset: {offset}")
    return chosen


def _partitions(cluster: Cluster, topics: list[str]) -> list[TopicPartition]:
    known = cluster.metadata(topics).topics if topics else {}
    return [(name, index) for name in topics for index in known[name].partitions]


def _to_delete(parsed: Parsed, application: str, topics: list[str]) -> list[str]:
    inferred = sorted(
        name
        for name in topics
        if name.startswith(f"{application}-") and (name.endswith(INTERNAL_ENDINGS) or "-subscription-" in name)
    )
    if "internal-topics" not in parsed:
        return inferred
    wanted = _split(parsed.texts("internal-topics"))
    if any(name not in inferred for name in wanted):
        raise ToolFailed(
            "Invalid topic specified in the --internal-topics option. Ensure that the topics specified are all "
            "internal topics. Do a dry run without the --internal-topics option to see the list of all "
            "internal topics that can be deleted."
        )
    return wanted


def _delete(cluster: Cluster, topics: list[str]) -> None:
    from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    if not topics:
        return
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in topics], timeout_ms=30_000)
    failed = {each.name: each for each in cluster.ask_controller(request).responses if each.error_code}
    for name, result in failed.items():
        print(f"ERROR: Deleting topic {name} failed: {result.error_message}", file=sys.stderr)
    if failed:
        raise ToolFailed("ERROR: Not all internal topics were deleted.")
