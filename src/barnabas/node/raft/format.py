"""Whose are these directories? Empty ones become ours, as `kafka-storage format --standalone` would make them, or,
where `controller.quorum.voters` names the voters, as `kafka-storage format` would: with kraft.version 0.

In each directory every file is there whole or not at all, and `meta.properties`, written last, says that the others
are there: whatever step a crash comes after, the directory is either formatted or still counts as empty and is
formatted again. The metadata log directory comes first, so that none of the others belongs to a cluster that is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from barnabas.core.metadata import decide
from barnabas.core.metadata.records import LEVEL_WRITTEN
from barnabas.core.metadata.state import Endpoint
from barnabas.node.raft.errors import StartError
from barnabas.node.raft.load import LOG_DIRECTORY_NAME
from barnabas.node.raft.snapshots import BOOTSTRAP_FILE_NAME, FIRST_SNAPSHOT, list_snapshots, small_snapshot
from barnabas.node.raft.voters import voters_record
from barnabas.node.storage.directory.files import fsync_path, write_atomically
from barnabas.node.storage.directory.log_dir import LogDir
from barnabas.node.storage.directory.meta_properties import MetaProperties
from barnabas.wire.records.raft import KRaftVersionRecord
from barnabas.wire.uuids import Uuid

KRAFT_VERSION_WRITTEN = 1


def claim_directories(
    log_dirs: Sequence[LogDir],
    metadata_dir: LogDir,
    *,
    node_id: int,
    cluster_id: str | None,
    controller_endpoints: Sequence[Endpoint],
    now_ms: int,
    voters_are_static: bool = False,
    makes_cluster: bool = True,
) -> str:
    """Formats what is empty and returns the cluster's id; a StartError, and nothing written, if one is not ours.

    The directories are locked. `cluster_id` is what the user asks for, if anything; a new cluster without one gets a
    random one. `metadata_dir` may or may not be one of `log_dirs`. One that is offline, or goes offline when it is
    written to, is left out. Where `voters_are_static` the configuration names the voters, or others do; else the log
    does, and names this node alone. A node that does not make the cluster is told its id.
    """
    directories = [metadata_dir, *(each for each in log_dirs if each is not metadata_dir and each.offline is None)]
    found = _common_cluster(directories, node_id, cluster_id)
    if metadata_dir.meta is None:
        if found is not None:
            raise StartError(f"{metadata_dir.path} has no metadata log, but other directories are of cluster {found}")
        _refuse_metadata_without_identity(Path(metadata_dir.path))
    cluster_id = cluster_id or found
    if cluster_id is None:
        if not makes_cluster:
            raise StartError(
                f"{metadata_dir.path} is not formatted, and this node is one of several: all of them need the same "
                "CLUSTER_ID, or kafka-storage format with the same --cluster-id"
            )
        cluster_id = str(Uuid.random())
    for directory in directories:
        if directory.meta is None:
            directory_id = Uuid.random()
            if directory is metadata_dir:
                format_metadata_directory(
                    Path(directory.path),
                    node_id=node_id,
                    directory_id=directory_id,
                    controller_endpoints=None if voters_are_static else controller_endpoints,
                    now_ms=now_ms,
                )
            _sign(directory, MetaProperties(cluster_id, node_id, directory_id), needed=directory is metadata_dir)
    return cluster_id


def _sign(directory: LogDir, meta: MetaProperties, *, needed: bool) -> None:
    try:
        directory.write_meta(meta)
    except OSError as error:
        if needed:
            raise
        directory.failed(error)


def format_metadata_directory(
    root: Path, *, node_id: int, directory_id: Uuid, controller_endpoints: Sequence[Endpoint] | None, now_ms: int
) -> None:
    """Everything but `meta.properties`; without endpoints the voters are not in the log (kraft.version 0)."""
    directory = root / LOG_DIRECTORY_NAME
    bootstrap = small_snapshot([], decide.bootstrap_records(), level=LEVEL_WRITTEN, last_contained_ms=0, now_ms=now_ms)
    write_atomically(str(root / BOOTSTRAP_FILE_NAME), bootstrap)
    directory.mkdir(exist_ok=True)
    fsync_path(str(root))
    if controller_endpoints is None:
        return
    voters = voters_record(node_id, directory_id, controller_endpoints)
    first = small_snapshot(
        [KRaftVersionRecord(k_raft_version=KRAFT_VERSION_WRITTEN), voters],
        [],
        level=LEVEL_WRITTEN,
        last_contained_ms=now_ms,
        now_ms=now_ms,
    )
    write_atomically(str(directory / FIRST_SNAPSHOT.file_name), first)


def _common_cluster(directories: Sequence[LogDir], node_id: int, cluster_id: str | None) -> str | None:
    found: str | None = None
    seen: dict[Uuid, str] = {}
    for directory in directories:
        meta = directory.meta
        if meta is None:
            continue
        if meta.node_id != node_id:
            raise StartError(f"{directory.path} belongs to node {meta.node_id}, and this is node {node_id}")
        wanted = cluster_id or found or meta.cluster_id
        if meta.cluster_id != wanted:
            raise StartError(f"{directory.path} belongs to cluster {meta.cluster_id}, not to cluster {wanted}")
        if meta.directory_id in seen:
            raise StartError(f"{directory.path} and {seen[meta.directory_id]} are copies of one directory")
        seen[meta.directory_id] = directory.path
        found = meta.cluster_id
    return found


def _refuse_metadata_without_identity(root: Path) -> None:
    """A log or an image without `meta.properties` was not left by a format that a crash cut short."""
    directory = root / LOG_DIRECTORY_NAME
    if not directory.exists():
        return
    if any(directory.glob("*.log")) or any(each != FIRST_SNAPSHOT for each in list_snapshots(directory)):
        raise StartError(f"{root} holds the metadata of a cluster but no meta.properties, and is left as it is")
