"""The JSON files of kafka-reassign-partitions: what is to move where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from barnabas.cli.arguments.partition_files import entries, field, read_json
from barnabas.cli.errors import ToolFailed
from barnabas.client.admin.reassignments import Assignment, Directories, Partition, Replica, named

ANY_DIRECTORY = "any"


def read_assignment(path: str) -> tuple[list[tuple[Partition, list[int]]], Directories]:
    content: Any = _checked(read_json(path))
    listed: list[tuple[Partition, list[int]]] = []
    directories: Directories = {}
    for entry in entries(content, "partitions", path):
        partition = field(entry, "topic", str, path), field(entry, "partition", int, path)
        replicas = field(entry, "replicas", list, path)
        if not all(type(broker) is int for broker in replicas):
            raise ToolFailed(f"The replicas of {named(partition)} in {path} are not brokers' ids: {replicas}")
        log_dirs = entry.get("log_dirs") or [ANY_DIRECTORY] * len(replicas)
        if not isinstance(log_dirs, list) or not all(isinstance(each, str) for each in log_dirs):
            raise ToolFailed(f"The log_dirs of {named(partition)} in {path} are not names of directories: {log_dirs}")
        if len(log_dirs) != len(replicas):
            raise ToolFailed(
                f"Size of replicas list {replicas} is different from size of log dirs list {log_dirs} for partition "
                f"{named(partition)}"
            )
        listed.append((partition, replicas))
        for broker, directory in zip(replicas, log_dirs, strict=True):
            if directory != ANY_DIRECTORY:
                directories[(*partition, broker)] = directory
    return listed, directories


def read_topics(path: str) -> list[str]:
    content: Any = _checked(read_json(path))
    topics = [field(entry, "topic", str, path) for entry in entries(content, "topics", path)]
    if twice := sorted({topic for topic in topics if topics.count(topic) > 1}):
        raise ToolFailed(f"List of topics to reassign contains duplicate entries: [{', '.join(twice)}]")
    return topics


def _checked(content: Any) -> Any:
    if not isinstance(content, dict):
        raise ToolFailed("The input string is not a valid JSON")
    if content.get("version", 1) != 1:
        raise ToolFailed(f"Not supported version field value {content['version']}")
    return content


def check_assignment(listed: list[tuple[Partition, list[int]]]) -> Assignment:
    if not listed:
        raise ToolFailed("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in listed):
        raise ToolFailed("Partition replica list cannot be empty")
    partitions = [partition for partition, _ in listed]
    if twice := sorted({partition for partition in partitions if partitions.count(partition) > 1}):
        raise ToolFailed(f"Partition reassignment contains duplicate topic partitions: {','.join(map(named, twice))}")
    repeated = {
        partition: sorted({broker for broker in replicas if replicas.count(broker) > 1})
        for partition, replicas in listed
    }
    if wrong := {partition: brokers for partition, brokers in repeated.items() if brokers}:
        told = ". ".join(
            f"{named(partition)} contains multiple entries for {','.join(map(str, brokers))}"
            for partition, brokers in wrong.items()
        )
        raise ToolFailed(f"Partition replica lists may not contain duplicate entries: {told}")
    return dict(listed)


def as_json(assignment: Assignment, directories: Mapping[Replica, str | None]) -> str:
    partitions = [
        {
            "topic": partition[0],
            "partition": partition[1],
            "replicas": replicas,
            "log_dirs": [directories.get((*partition, broker)) or ANY_DIRECTORY for broker in replicas],
        }
        for partition, replicas in sorted(assignment.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))
