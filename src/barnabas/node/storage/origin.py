"""Who appends: it decides what is checked and whose offsets hold."""

from __future__ import annotations

from enum import Enum


class Origin(Enum):
    CLIENT = "client"  # everything is checked; offsets and epoch are given by the log
    COORDINATOR = "coordinator"  # a coordinator of ours: control batches are welcome, sequences are not looked at
    REPLICATION = "replication"  # the leader's bytes: offsets and epochs are kept as they are
    QUORUM = "quorum"  # the metadata log's leader
