"""What the cleaner may touch."""

from __future__ import annotations

from pathlib import Path

from barnabas.node.storage.cleaning.cleaner import Cleaner, CleanerSettings
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import create_log
from barnabas.wire.batch import Record, build_batch

NOW_MS = 1_700_000_000_000


class Later:
    """A log directory whose disk is slow."""

    def __init__(self) -> None:
        self.asked: list[PartitionLog] = []

    def flush_later(self, log: PartitionLog) -> None:
        self.asked.append(log)

    def delete_later(self, paths: list[str], delay_ms: int) -> None: ...
    def failed(self, error: OSError) -> None: ...


class OnlyReplica:
    def __init__(self, log: PartitionLog) -> None:
        self.log = log

    @property
    def last_stable_offset(self) -> int:
        return self.log.log_end_offset


def test_a_record_stays_until_the_one_that_supersedes_it_is_on_the_disk(tmp_path: Path) -> None:
    background = Later()
    config = LogConfig(cleanup_policy=("compact",))
    log = create_log(tmp_path / "t-0", "t", 0, config, now_ms=NOW_MS, background=background)
    for number in range(20):
        log.append(build_batch([Record(0, NOW_MS, b"key", b"%d" % number)]), leader_epoch=0, now_ms=NOW_MS)
        log.roll(now_ms=NOW_MS)
    cleaner = Cleaner([OnlyReplica(log)], [], lambda: NOW_MS, CleanerSettings())
    background.asked.clear()
    assert cleaner._dirt_of(OnlyReplica(log)) is None
    assert background.asked == [log]
    log.flush()
    dirt = cleaner._dirt_of(OnlyReplica(log))
    assert dirt is not None
    assert dirt.first_uncleanable_offset == 20
    log.close(clean=False)
