"""What a checkpoint of a topology tells: Spark's notes of batches, and ours beside them.

offsets/12, commits/12     Spark's: batch 12 was begun with these offsets, and is done
barnabas/topology.json     what the topology looked like, how many partitions its topics had, and where its state is
barnabas/state             state by stage and partition (`state.versions`); after a change of the number of
                           partitions `barnabas/state-2` and so on (`moving`)
barnabas/tasks.json        how many tasks there are behind a shuffle
"""

from __future__ import annotations

import json
from typing import Any

from barnabas.pipelines.streams.checks import check_unchanged
from barnabas.pipelines.streams.errors import StateDamaged
from barnabas.pipelines.streams.state.storage import Directory, settle
from barnabas.pipelines.streams.state.versions import forget_after

NOTES = "barnabas"
TOPOLOGY = "topology.json"
STATE = "state"  # the name of the first one, and the field of the note that names another one


def state_name(directory: Directory) -> str:
    note = read_note(directory, TOPOLOGY)
    return STATE if note is None else str(note.get(STATE, STATE))


def state_of(directory: Directory) -> Directory:
    return directory.under(NOTES, state_name(directory))


def remember(directory: Directory, now: dict[str, Any]) -> None:
    before = read_note(directory, TOPOLOGY)
    if before is None:
        write_note(directory, TOPOLOGY, now)
        return
    check_unchanged(before, now, directory.address)
    if before["partitions"] != now["partitions"]:  # an older edition did not note those of global tables
        write_note(directory, TOPOLOGY, before | now)


def kept_tasks(directory: Directory, wanted: int) -> int:
    """How many tasks there are behind a shuffle. A batch that is done again has as many as the first time, whatever
    machine does it, because tasks commit one by one; else as many as this machine would have."""
    before = read_note(directory, "tasks.json")
    if before is not None and is_half_done(directory):
        return int(before)
    write_note(directory, "tasks.json", wanted)
    settle()
    return wanted


def read_note(directory: Directory, name: str) -> Any:
    """None if it is not there."""
    try:
        return json.loads(directory.under(NOTES).read(name))
    except FileNotFoundError:
        return None
    except ValueError as error:
        place = directory.under(NOTES).place_of(name)
        raise StateDamaged(f"state file {place} is damaged: {error}") from error


def write_note(directory: Directory, name: str, content: Any) -> None:
    directory.under(NOTES).write(name, json.dumps(content, indent=1).encode())


def committed_batch(directory: Directory) -> int | None:
    """The last batch that is done. Spark notes the offsets of a batch when the one before it is, so where a machine was
    lost and the last notes with it, those of the offsets tell as much."""
    done = max(batches_in(directory, "commits"), default=-1)
    begun = max(batches_in(directory, "offsets"), default=-1)
    last = max(done, begun - 1)
    return None if last < 0 else last


def batches_in(directory: Directory, log: str) -> list[int]:
    return [int(one) for one in directory.under(log).names() if one.isdigit()]


def is_half_done(directory: Directory) -> bool:
    """Whether Spark has begun a batch that it has not noted as done."""
    return max(batches_in(directory, "offsets"), default=-1) > max(batches_in(directory, "commits"), default=-1)


def forget_uncommitted(directory: Directory) -> None:
    last = committed_batch(directory)
    if last is None:
        version = 0 if has_begun(directory) else -1  # version 0: global tables, as the first batch found them
    else:
        version = last + 1
    forget_after(state_of(directory), version)


def has_begun(directory: Directory) -> bool:
    """Whether Spark has noted the offsets of a batch, which from then on is always the same batch."""
    return bool(batches_in(directory, "offsets"))
