"""Reads a metadata log directory without touching it: newest snapshot, then the log behind it.

Everything that can make us refuse a directory is found here, before the lock's owner opens the log for writing, cuts a
torn tail or starts an epoch: another level, records we do not know, a quorum that is not ours, a hole.
"""

from __future__ import annotations

import gc
import logging
import mmap
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.core.metadata import decide
from barnabas.core.metadata.loading import ImageLoading
from barnabas.core.metadata.records import METADATA_VERSION, MetadataError, check_level
from barnabas.core.metadata.state import MetadataDelta, MetadataImage
from barnabas.core.raft import QuorumState
from barnabas.node.raft.batches import EncodedBatch, find_batch, naming_offset, read_encoded_batches
from barnabas.node.raft.errors import StartError
from barnabas.node.raft.quorum_state import read_quorum_state
from barnabas.node.raft.snapshots import (
    SnapshotContent,
    SnapshotId,
    list_snapshots,
    read_bootstrap_records,
    read_snapshot,
    readable_snapshots,
)
from barnabas.node.storage.directory.clean_stop import CLEAN_SHUTDOWN_FILE
from barnabas.node.storage.directory.log_dir import PARTITION_DIRECTORY
from barnabas.wire import batch as wire
from barnabas.wire.records import metadata
from barnabas.wire.records.raft import KRaftVersionRecord, VotersRecord
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid

log = logging.getLogger(__name__)

LOG_DIRECTORY_NAME = "__cluster_metadata-0"
EPOCH_MAX = 2**31 - 1
LARGE_IMAGE_OBJECTS = 50_000
_INDEX_ENTRY = struct.Struct(">ii")


@dataclass(slots=True)
class LoadedMetadata:
    directory: Path
    image: MetadataImage = field(default_factory=MetadataImage)
    bootstrap_records: list[Record] = field(default_factory=list)
    quorum_state: QuorumState | None = None
    voters: VotersRecord | None = None
    snapshot_id: SnapshotId | None = None
    end_offset: int = 0
    epoch: int = 0
    timestamp_ms: int = 0
    snapshot_bytes: int = 0
    bytes_since_snapshot: int = 0
    log_is_behind_snapshot: bool = False
    was_clean: bool = False
    # All there are, also those that cannot be read.
    snapshots: list[SnapshotId] = field(default_factory=list)
    # What makes the log useless to a quorum of one, though others could bring it again.
    damage: str = ""

    @property
    def level(self) -> int:
        """The metadata.version of the log, or that of the bootstrap records if the log is still empty."""
        level = self.image.features.get(METADATA_VERSION)
        if level is not None:
            return level
        features = (each for each in self.bootstrap_records if isinstance(each, metadata.FeatureLevelRecord))
        return next((each.feature_level for each in features if each.name == METADATA_VERSION), 0)

    @property
    def kraft_version(self) -> int:
        return self.image.features.get("kraft.version", 0)

    @property
    def last_segment(self) -> int:
        """The offset with which the last file of the log begins."""
        segments = _segments(self.directory)
        return segments[-1][0] if segments else 0


def load_metadata(
    root: Path, *, node_id: int, directory_id: Uuid, voters: Sequence[int] | None = None
) -> LoadedMetadata:
    """`root` is the metadata log directory, the one with `bootstrap.checkpoint`.

    `voters` are those of the configuration: None if it names no controller at all, so that this node must be the whole
    quorum; empty if it only says where controllers are found. Of a quorum of one everything in the log is committed;
    of others only what a snapshot holds is known to be, and the image ends there.
    """
    loaded = LoadedMetadata(root / LOG_DIRECTORY_NAME)
    loaded.was_clean = (root / CLEAN_SHUTDOWN_FILE).exists()
    try:
        loaded.bootstrap_records = read_bootstrap_records(root) or decide.bootstrap_records()
        loaded.quorum_state = read_quorum_state(loaded.directory)
        loaded.snapshots = list_snapshots(loaded.directory)
        with _without_collector():
            _load_snapshot(loaded)
            _load_log(loaded)
        check_level(loaded.level)
        if _is_alone(loaded, node_id, directory_id, voters):
            if loaded.damage:
                raise MetadataError(loaded.damage)
            _refuse_lost_log(loaded, root)
        elif loaded.image.offset >= 0:
            _forget_log(loaded)
    except MetadataError as error:
        raise StartError(f"The metadata in {loaded.directory} cannot be loaded: {error}") from error
    _check_quorum(loaded, node_id, directory_id, voters)
    if loaded.quorum_state is not None:
        loaded.epoch = max(loaded.epoch, loaded.quorum_state.epoch)
    if loaded.epoch >= EPOCH_MAX:
        raise StartError(f"The quorum in {loaded.directory} is damaged: epoch {loaded.epoch} has no next one")
    return loaded


@contextmanager
def _without_collector() -> Iterator[None]:
    """An image of a million records has no garbage in it, and looking for some again and again takes a third longer.

    Nor is a large one looked through afterwards.
    """
    was_enabled = gc.isenabled()
    before = gc.get_count()[0]
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] - before > LARGE_IMAGE_OBJECTS:
            gc.freeze()
        if was_enabled:
            gc.enable()


def _is_alone(loaded: LoadedMetadata, node_id: int, directory_id: Uuid, voters: Sequence[int] | None) -> bool:
    if loaded.voters is None:
        return voters is None or list(voters) == [node_id]
    return [(each.voter_id, each.voter_directory_id) for each in loaded.voters.voters] == [(node_id, directory_id)]


def _forget_log(loaded: LoadedMetadata) -> None:
    """The image ends with the snapshot: what the log has behind it may not be committed."""
    end_offset, epoch, timestamp_ms = loaded.end_offset, loaded.epoch, loaded.timestamp_ms
    voters, loaded.image = loaded.voters, MetadataImage()
    if loaded.snapshot_id is not None:
        path = loaded.directory / loaded.snapshot_id.file_name
        _replay_snapshot(loaded, loaded.snapshot_id, read_snapshot(path))
    loaded.voters = voters
    loaded.end_offset, loaded.epoch, loaded.timestamp_ms = end_offset, epoch, timestamp_ms
    loaded.bytes_since_snapshot = 0


def _load_snapshot(loaded: LoadedMetadata) -> None:
    log_start = _first_offset(loaded.directory)
    for snapshot_id, content in readable_snapshots(loaded.directory):
        if log_start is not None and log_start > snapshot_id.end_offset:
            break
        _replay_snapshot(loaded, snapshot_id, content)
        return
    if log_start is not None and log_start > 0:
        raise MetadataError(f"the log begins at offset {log_start}, and no whole snapshot reaches it")


def _replay_snapshot(loaded: LoadedMetadata, snapshot_id: SnapshotId, content: SnapshotContent) -> None:
    _replay_control(loaded, content.control_records)
    delta = MetadataDelta()
    for record in content.records:
        loaded.image.replay(record, delta)
    loaded.snapshot_id = snapshot_id
    loaded.snapshot_bytes = content.size_bytes
    loaded.end_offset, loaded.epoch = snapshot_id.end_offset, snapshot_id.epoch
    loaded.timestamp_ms = content.last_contained_log_timestamp_ms
    loaded.image.offset, loaded.image.epoch = snapshot_id.end_offset - 1, snapshot_id.epoch


def _load_log(loaded: LoadedMetadata) -> None:
    snapshot_end = loaded.end_offset
    log_end: int | None = None
    loading = ImageLoading(loaded.image)
    for batch in _batches(loaded, snapshot_end):
        log_end = batch.header.last_offset + 1
        if log_end > snapshot_end:
            _replay_batch(loaded, batch, loading)
            loaded.bytes_since_snapshot += batch.header.size
    loaded.log_is_behind_snapshot = (log_end or 0) < snapshot_end
    for snapshot_id in list_snapshots(loaded.directory):
        if snapshot_id.end_offset > loaded.end_offset:
            raise MetadataError(
                f"{snapshot_id.file_name} cannot be read, and the log ends before it, at offset {loaded.end_offset}"
            )


def _refuse_lost_log(loaded: LoadedMetadata, root: Path) -> None:
    """Who has partitions had metadata: an empty log in its place would take them for nobody's."""
    if loaded.end_offset == 0 and loaded.directory.exists():
        names = (path.name for path in sorted(root.iterdir()) if path.name != LOG_DIRECTORY_NAME)
        partition = next((name for name in names if PARTITION_DIRECTORY.fullmatch(name)), None)
        if partition is not None:
            raise MetadataError(f"the log is empty, but there are partitions such as {partition}")


def _replay_batch(loaded: LoadedMetadata, batch: EncodedBatch, loading: ImageLoading) -> None:
    header = batch.header
    if header.base_offset != loaded.end_offset:
        raise MetadataError(f"offset {loaded.end_offset} is missing: the next batch begins at {header.base_offset}")
    if header.leader_epoch < loaded.epoch:
        raise MetadataError(
            f"epoch {header.leader_epoch} at offset {header.base_offset} comes after epoch {loaded.epoch}"
        )
    _replay_control(loaded, batch.control_records)
    with naming_offset(header.base_offset):
        loading.replay(batch.values)
    loaded.end_offset, loaded.epoch = header.last_offset + 1, header.leader_epoch
    loaded.timestamp_ms = header.max_timestamp
    loaded.image.offset, loaded.image.epoch = header.last_offset, header.leader_epoch


def _replay_control(loaded: LoadedMetadata, records: list[Record]) -> None:
    for record in records:
        if isinstance(record, KRaftVersionRecord):
            loaded.image.replay(record)
        elif isinstance(record, VotersRecord):
            loaded.voters = record


def _segments(directory: Path) -> list[tuple[int, Path]]:
    if not directory.exists():
        return []
    return sorted((int(path.stem), path) for path in directory.glob("*.log") if path.stem.isdigit())


def _first_offset(directory: Path) -> int | None:
    segments = _segments(directory)
    return segments[0][0] if segments else None


def _batches(loaded: LoadedMetadata, from_offset: int) -> Iterator[EncodedBatch]:
    """Whole batches in order, from the one that holds `from_offset` or ends right before it; a torn tail ends them."""
    segments = _segments(loaded.directory)
    end_offset = 0
    for index, (_, path) in enumerate(segments):
        if index + 1 < len(segments) and segments[index + 1][0] < from_offset:
            continue
        data = _mapped(path)
        position = _skip(path, data, from_offset)
        for end, batch in read_encoded_batches(data, position):
            yield batch
            position, end_offset = end, batch.header.last_offset + 1
        if position == len(data):
            continue
        if index + 1 < len(segments):
            raise MetadataError(f"{path} is damaged at position {position}, long before its end")
        loaded.damage = _find_damage(path, data, position, end_offset, loaded.was_clean)
        log.warning(
            "%s: removing a torn tail of %d bytes behind offset %d, which was never acknowledged",
            path,
            len(data) - position,
            end_offset - 1,
        )


def _find_damage(path: Path, data: memoryview, position: int, end_offset: int, was_clean: bool) -> str:
    """A tail that a crash has torn is the last thing that was written; after anything else, decisions would be lost."""
    damage = f"{path} is damaged at position {position}, where offset {end_offset} should be"
    way_on = (
        f"to go on, restore the directory from a copy, or give up every change from offset {end_offset} on: "
        f"truncate -s {position} {path}"
    )
    if was_clean:
        return f"{damage}, although the node stopped cleanly; {way_on}"
    found = find_batch(data, position + 1, end_offset)
    if found is not None:
        return f"{damage}, and at position {found[0]} it goes on with offset {found[1]}; {way_on}"
    return ""


def _mapped(path: Path) -> memoryview:
    with open(path, "rb") as file:
        if file.seek(0, 2) == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _skip(path: Path, data: memoryview, from_offset: int) -> int:
    """The position of a batch that begins below `from_offset`, near it if the index helps."""
    before = _indexed_position(path.with_suffix(".index"), data, from_offset)
    for position, header in wire.iterate_batches(data, before):
        if header.base_offset >= from_offset:
            break
        before = position
    return before


def _indexed_position(path: Path, data: memoryview, from_offset: int) -> int:
    """What the offset index says, if the batch there agrees; an index may be stale or missing after a crash."""
    try:
        index = path.read_bytes()
    except FileNotFoundError:
        return 0
    base_offset, found = int(path.stem), 0
    for relative_offset, position in _INDEX_ENTRY.iter_unpack(index[: len(index) - len(index) % _INDEX_ENTRY.size]):
        if base_offset + relative_offset >= from_offset or position <= found:
            break
        if len(data) - position < wire.HEADER_BYTES or wire.read_header(data, position).magic != wire.MAGIC:
            break
        if wire.read_header(data, position).last_offset != base_offset + relative_offset:
            break
        found = position
    return found


def _check_quorum(loaded: LoadedMetadata, node_id: int, directory_id: Uuid, configured: Sequence[int] | None) -> None:
    if loaded.kraft_version > 1:
        raise StartError(f"The quorum in {loaded.directory} has kraft.version {loaded.kraft_version}, which is unknown")
    if configured is not None:
        return
    if loaded.voters is not None:
        voters = [(voter.voter_id, voter.voter_directory_id) for voter in loaded.voters.voters]
        is_reachable = all(voter.endpoints for voter in loaded.voters.voters if voter.voter_id != node_id)
        if (node_id, directory_id) not in voters or not is_reachable:
            named = ", ".join(f"{voter} in directory {directory}" for voter, directory in voters)
            itself = f"node {node_id} in directory {directory_id}"
            raise StartError(f"The quorum in {loaded.directory} has other voters ({named}) than {itself}")
    elif loaded.quorum_state is not None and set(loaded.quorum_state.static_voters) - {node_id}:
        named = ", ".join(str(voter) for voter in loaded.quorum_state.static_voters)
        raise StartError(f"The quorum in {loaded.directory} has other voters ({named}) than node {node_id}")
