"""What is wrong with a topology, found before anything runs: in one sentence that names the operator."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from barnabas.pipelines.streams.errors import CheckpointError, TopicGrown, TopologyError
from barnabas.pipelines.streams.graph import Graph, Node

AT_LEAST_ONCE, EXACTLY_ONCE = "at_least_once", "exactly_once_v2"
STOP, DEAD_LETTER, SKIP = "stop", "dead_letter", "skip"  # what becomes of a record on which an operator fails
OLDER_NAMES = ("exactly_once", "exactly_once_beta")


def guarantee(given: str) -> str:
    if given in OLDER_NAMES:
        warnings.warn(f"processing_guarantee {given} is the older name of {EXACTLY_ONCE}", stacklevel=3)
        return EXACTLY_ONCE
    if given not in (AT_LEAST_ONCE, EXACTLY_ONCE):
        raise TopologyError(f"processing_guarantee is {AT_LEAST_ONCE} or {EXACTLY_ONCE}, not '{given}'")
    return given


def error_policy(given: str | None, dead_letter: str | None) -> str:
    if given is None:
        return STOP if dead_letter is None else DEAD_LETTER
    if given not in (STOP, DEAD_LETTER, SKIP):
        raise TopologyError(f"on_error is '{STOP}', '{DEAD_LETTER}' or '{SKIP}', not {given!r}")
    if (given == DEAD_LETTER) != (dead_letter is not None):
        said = "needs dead_letter=, the name of a topic" if given == DEAD_LETTER else "takes no dead_letter="
        raise TopologyError(f"on_error='{given}' {said}")
    return given


def cache_bytes(given: int) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise TopologyError(f"state_cache_bytes is a number of bytes, not {given!r}")
    return given


def check_ends(graph: Graph, name: str) -> None:
    if not graph.sources():
        raise TopologyError(f"topology {name} reads nothing: begin with stream() or table()")
    if not any(node.is_end for node in graph.nodes) and not graph.named_stores:
        last = graph.nodes[-1]
        raise TopologyError(
            f"topology {name} has no sink: {last.name} leads nowhere, end it with to(), foreach() or store=", last.where
        )


def check_co_partitioning(graph: Graph, partitions: Mapping[str, int]) -> None:
    """Topics whose records meet by key without a repartition have the same number of partitions."""
    for node, counts in not_co_partitioned(graph, partitions):
        told = " and ".join(f"{topic} has {count}" for topic, count in counts.items())
        raise TopologyError(
            f"{node.name} needs topics of the same number of partitions, and {told}: repartition() one of them",
            node.where,
        )


def not_co_partitioned(graph: Graph, partitions: Mapping[str, int]) -> Iterator[tuple[Node, dict[str, int]]]:
    """Operators whose topics differ, and how many partitions these have."""
    for node in graph.nodes:
        meets = node.operator.stores or (len(node.inputs) > 1 and node.operator.kind != "merge")
        if not meets or node.stage > 0:
            continue
        counts = {topic: partitions[topic] for one in node.inputs for topic in topics_above(one)}
        if len(set(counts.values())) > 1:
            yield node, counts


def topics_above(node: Node) -> list[str]:
    if not node.inputs:
        return list(getattr(node.operator, "topics", ()))
    return list(dict.fromkeys(topic for one in node.inputs for topic in topics_above(one)))


def fingerprint(graph: Graph, partitions: Mapping[str, int]) -> dict[str, Any]:
    """What must not change between two starts on a checkpoint: operators, stores and, if there is state, partitions."""
    operators = [
        {
            "name": node.name,
            "detail": node.operator.detail(),
            "inputs": [one.name for one in node.inputs],
            "stores": list(node.operator.stores),
        }
        for node in graph.nodes
    ]
    tables = [f"{one.store_name} of {one.topic}" for one in graph.global_tables]
    stateful = tables or any(node.operator.stores for node in graph.nodes)
    return {"operators": operators, "global tables": tables, "partitions": dict(partitions) if stateful else {}}


def ends_of(said: Mapping[str, Any]) -> list[tuple[str, str]] | None:
    """Sources and sinks of a topology that keeps nothing and shuffles nothing: what is between them may change, as all
    that a checkpoint has of it are the offsets of its sources. None of any other."""
    steps = said["operators"]
    if said["global tables"] or any(one["stores"] or kind_of(one) == "repartition" for one in steps):
        return None
    return sorted((kind_of(one), one["detail"]) for one in steps if kind_of(one) in ("source", "sink"))


def kind_of(step: Mapping[str, Any]) -> str:
    return str(step["name"]).rpartition("-")[0]


def check_unchanged(before: Mapping[str, Any], now: Mapping[str, Any], checkpoint: str) -> None:
    if all(before[what] == now[what] for what in now) or (
        ends_of(before) is not None and ends_of(before) == ends_of(now)
    ):
        return
    advice = f"choose another checkpoint than {checkpoint}, or reset this one"
    for old, new in zip(before["operators"], now["operators"], strict=False):
        if old != new:
            told_old, told_new = (f"{one['name']} ({one['detail'] or 'no settings'})" for one in (old, new))
            if told_old == told_new:
                told_old, told_new = (f"{one['name']} behind {', '.join(one['inputs'])}" for one in (old, new))
            raise CheckpointError(f"the checkpoint belongs to another topology: {told_old} is now {told_new}; {advice}")
    if len(before["operators"]) != len(now["operators"]):
        longer = max(before, now, key=lambda one: len(one["operators"]))
        extra = longer["operators"][min(len(before["operators"]), len(now["operators"]))]["name"]
        what = "is new" if longer is now else "is gone"
        raise CheckpointError(f"the checkpoint belongs to another topology: {extra} {what}; {advice}")
    if before["global tables"] != now["global tables"]:
        raise CheckpointError(f"the checkpoint belongs to another topology: its global tables are others; {advice}")
    check_not_grown(before["partitions"], now["partitions"], checkpoint)


def check_not_grown(before: Mapping[str, int], now: Mapping[str, int], checkpoint: str) -> None:
    """An older edition did not note the partitions of a topology whose only state are global tables."""
    for topic, count in now.items():
        if before and before.get(topic) != count:
            raise TopicGrown(grown(topic, before.get(topic), count, checkpoint))


def grown(topic: str, before: int | None, count: int, checkpoint: str) -> str:
    return (
        f"topic {topic} had {before} partitions and has {count}: keys have moved away from their state, which"
        f" `barnabas pipeline rescale {checkpoint} --partitions {count}` moves after them"
    )
