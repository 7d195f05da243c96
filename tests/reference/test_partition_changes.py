"""A partition changes as Kafka's controller changes it, over random partitions and wishes.

All lines go through one Java process (`java/PartitionChanges.java`), as a filter. `BARNABAS_CHANGES=1000000` asks more.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from barnabas.core.controller.partition_changes import Election, PartitionChange
from barnabas.core.metadata.state import MetadataImage, PartitionState
from barnabas.wire.records.metadata import PartitionChangeRecord
from barnabas.wire.uuids import Uuid
from tests.support import reference

FILTER = Path(__file__).parent / "java" / "PartitionChanges.java"
CHANGES = int(os.environ.get("BARNABAS_CHANGES", "20000"))


def some(random: Random, of: Sequence[int]) -> list[int]:
    return random.sample(list(of), random.randint(0, len(of)))


def random_change(random: Random) -> PartitionChange:
    replicas = random.sample(range(1, 7), random.randint(1, 5))
    isr = some(random, replicas)
    eligible = sorted(some(random, [each for each in replicas if each not in isr])) if random.random() < 0.4 else []
    leader = random.choice([*isr, -1]) if isr else -1
    last_known = [random.choice(replicas)] if leader == -1 and random.random() < 0.5 else []
    adding, removing = [], []
    if random.random() < 0.3:
        adding = some(random, replicas)
        removing = some(random, [each for each in replicas if each not in adding])
    partition = PartitionState(
        topic_id=Uuid(15 * b"\0" + b"\1"),
        topic="t",
        index=0,
        replicas=replicas,
        isr=isr,
        leader=leader,
        leader_epoch=3,
        partition_epoch=4,
        leader_recovery_state=random.choice([0, 0, 0, 1]),
        directories=[Uuid((7 << 64 | replica).to_bytes(16, "big")) for replica in replicas],
        adding_replicas=adding,
        removing_replicas=removing,
        eligible_leader_replicas=eligible,
        last_known_elr=last_known,
    )
    acceptable = frozenset(some(random, replicas)) if random.random() < 0.6 else frozenset(replicas)
    target = random.choice([isr, some(random, isr), some(random, replicas), [each for each in isr if each != leader]])
    return PartitionChange(
        partition=partition,
        acceptable=acceptable.__contains__,
        min_insync_replicas=random.randint(1, 3),
        tracks_eligible_leaders=random.random() < 0.6,
        isr=target,
        unclean_shutdown=some(random, replicas)[:1] if random.random() < 0.2 else [],
        recovery_state=random.choice([None, None, 0]),
        election=random.choice(list(Election)),
    )


def line(change: PartitionChange) -> str:
    partition = change.partition
    fields = [
        joined(partition.replicas),
        joined(partition.isr),
        joined(partition.eligible_leader_replicas),
        joined(partition.last_known_elr),
        joined(partition.adding_replicas),
        joined(partition.removing_replicas),
        str(partition.leader),
        str(partition.leader_recovery_state),
        joined([each for each in partition.replicas if change.acceptable(each)]),
        str(change.min_insync_replicas),
        "1" if change.tracks_eligible_leaders else "0",
        joined(change.isr or []),
        joined(change.unclean_shutdown),
        change.election.name,
        "" if change.recovery_state is None else str(change.recovery_state),
    ]
    return "\t".join(fields)


def joined(numbers: Sequence[int] | None) -> str:
    return "null" if numbers is None else ",".join(map(str, numbers))


def written(record: PartitionChangeRecord | None) -> str:
    if record is None:
        return "none"
    return "|".join(
        [
            str(record.leader),
            joined(record.isr),
            joined(record.replicas),
            joined(record.removing_replicas),
            joined(record.adding_replicas),
            str(record.leader_recovery_state),
            joined(record.eligible_leader_replicas),
            joined(record.last_known_elr),
            "null" if record.directories is None else str(len(record.directories)),
        ]
    )


def test_every_change_is_that_of_kafkas_controller() -> None:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    random = Random(31)
    changes = [random_change(random) for _ in range(CHANGES)]
    lines = [line(change) for change in changes]
    done = reference.run_tool(str(FILTER), input="".join(f"{each}\n" for each in lines))
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()[-CHANGES:]
    ours = [written(change.record(MetadataImage())) for change in changes]
    wrong = [trio for trio in zip(lines, ours, answers, strict=True) if trio[1] != trio[2]]
    assert wrong == []
    assert len(set(answers)) > CHANGES // 100
