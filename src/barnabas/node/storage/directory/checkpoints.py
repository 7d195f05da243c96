"""Checkpoint files: a version, a count, and that many lines; offsets of partitions, one file for each purpose.

They are written beside, fsynced and renamed, so a reader finds the old file or the new one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from barnabas.node.storage.directory.files import write_atomically

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
VERSION = "0"

TopicPartition = tuple[str, int]


class CorruptCheckpoint(Exception):
    """The file is not what Kafka or we write."""


def render(lines: Iterable[str]) -> bytes:
    listed = list(lines)
    return "".join(f"{line}\n" for line in (VERSION, str(len(listed)), *listed)).encode()


def read_lines(path: str) -> list[str]:
    """The lines behind version and count; a missing or empty file has none, as one that Kafka has just created."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise CorruptCheckpoint(f"{path} is not text") from None
    if not text:
        return []
    version, *rest = text.splitlines()
    count, lines = (rest[0], rest[1:]) if rest else ("", [])
    if version != VERSION:
        raise CorruptCheckpoint(f"{path} has version {version!r} instead of {VERSION}")
    if not count.isdigit() or int(count) != len(lines):
        raise CorruptCheckpoint(f"{path} announces {count!r} lines and has {len(lines)}")
    return lines


def read_offsets(directory: str, name: str) -> dict[TopicPartition, int]:
    path = os.path.join(directory, name)
    offsets: dict[TopicPartition, int] = {}
    for line in read_lines(path):
        try:
            topic, partition, offset = line.split()
            offsets[topic, int(partition)] = int(offset)
        except ValueError:
            raise CorruptCheckpoint(f"{path} has the line {line!r}") from None
    return offsets


def write_offsets(directory: str, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))
    write_atomically(os.path.join(directory, name), render(lines))
