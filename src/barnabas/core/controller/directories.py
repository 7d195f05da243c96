"""In which of a broker's log directories a replica lies, as far as the metadata says."""

from __future__ import annotations

from barnabas.core.metadata.state import BrokerState
from barnabas.wire.uuids import ZERO_UUID, Uuid

UNASSIGNED = ZERO_UUID
LOST = Uuid(15 * b"\0" + b"\1")
MIGRATING = Uuid(15 * b"\0" + b"\2")


def default_directory(broker: BrokerState) -> Uuid:
    """A broker with one directory has no choice; one with several chooses and tells the controller later."""
    if not broker.log_dirs:
        return MIGRATING
    return broker.log_dirs[0] if len(broker.log_dirs) == 1 else UNASSIGNED


def is_online(broker: BrokerState, directory: Uuid) -> bool:
    if directory in (UNASSIGNED, MIGRATING) or not broker.log_dirs:
        return directory != LOST
    return directory in broker.log_dirs


def accepts_replicas(broker: BrokerState) -> bool:
    """False while all directories of the broker are cordoned off for new replicas."""
    cordoned = broker.cordoned_log_dirs
    return not cordoned or any(directory not in cordoned for directory in broker.log_dirs)
