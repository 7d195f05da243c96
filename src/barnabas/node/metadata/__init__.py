"""The metadata of the cluster on this node: its log, its image, its controller.

controller = open_controller(root, node_id=1, directory_id=..., clock=...)   # reads; StartError if refused
await controller.activate(Registration(...))                                 # a new epoch begins
response = await controller.submit(lambda image: Decision(records, response))
await controller.stop()
"""

from barnabas.node.metadata.controller import Controller, open_controller
from barnabas.node.metadata.epoch import Registration
from barnabas.node.metadata.errors import StartError
from barnabas.node.metadata.format import claim_directories
from barnabas.node.metadata.load import LOG_DIRECTORY_NAME, load_metadata
from barnabas.node.metadata.log import MetadataLogConfig
from barnabas.node.metadata.quorum import Quorum, QuorumReplica
from barnabas.node.metadata.snapshotting import SnapshotPolicy

__all__ = [
    "LOG_DIRECTORY_NAME",
    "Controller",
    "MetadataLogConfig",
    "Quorum",
    "QuorumReplica",
    "Registration",
    "SnapshotPolicy",
    "StartError",
    "claim_directories",
    "load_metadata",
    "open_controller",
]
