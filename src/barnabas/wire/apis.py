"""The APIs of Kafka 4.3.1: names, and the versions it advertises per listener.

The advertised range can be wider than the definitions: Produce is said to begin at 0 so that older librdkafka enables
its newer features, though versions below 3 cannot be read.
"""

from __future__ import annotations

import importlib
from typing import NamedTuple

from barnabas.wire.schema import Request, Response


class Api(NamedTuple):
    name: str
    broker: tuple[int, int] | None
    controller: tuple[int, int] | None


APIS: dict[int, Api] = {
    0: Api("produce", (0, 13), None),
    1: Api("fetch", (4, 18), (4, 18)),
    2: Api("list_offsets", (1, 11), None),
    3: Api("metadata", (0, 13), None),
    8: Api("offset_commit", (2, 10), None),
    9: Api("offset_fetch", (1, 10), None),
    10: Api("find_coordinator", (0, 6), None),
    11: Api("join_group", (0, 9), None),
    12: Api("heartbeat", (0, 4), None),
    13: Api("leave_group", (0, 5), None),
    14: Api("sync_group", (0, 5), None),
    15: Api("describe_groups", (0, 6), None),
    16: Api("list_groups", (0, 5), None),
    17: Api("sasl_handshake", (0, 1), (0, 1)),
    18: Api("api_versions", (0, 4), (0, 4)),
    19: Api("create_topics", (2, 7), (2, 7)),
    20: Api("delete_topics", (1, 6), (1, 6)),
    21: Api("delete_records", (0, 2), None),
    22: Api("init_producer_id", (0, 5), None),
    23: Api("offset_for_leader_epoch", (2, 4), None),
    24: Api("add_partitions_to_txn", (0, 5), None),
    25: Api("add_offsets_to_txn", (0, 4), None),
    26: Api("end_txn", (0, 5), None),
    27: Api("write_txn_markers", (1, 2), None),
    28: Api("txn_offset_commit", (0, 5), None),
    29: Api("describe_acls", (1, 3), (1, 3)),
    30: Api("create_acls", (1, 3), (1, 3)),
    31: Api("delete_acls", (1, 3), (1, 3)),
    32: Api("describe_configs", (1, 4), (1, 4)),
    33: Api("alter_configs", (0, 2), (0, 2)),
    34: Api("alter_replica_log_dirs", (1, 2), None),
    35: Api("describe_log_dirs", (1, 5), None),
    36: Api("sasl_authenticate", (0, 2), (0, 2)),
    37: Api("create_partitions", (0, 3), (0, 3)),
    38: Api("create_delegation_token", (1, 3), (1, 3)),
    39: Api("renew_delegation_token", (1, 2), (1, 2)),
    40: Api("expire_delegation_token", (1, 2), (1, 2)),
    41: Api("describe_delegation_token", (1, 3), (1, 3)),
    42: Api("delete_groups", (0, 2), None),
    43: Api("elect_leaders", (0, 2), (0, 2)),
    44: Api("incremental_alter_configs", (0, 1), (0, 1)),
    45: Api("alter_partition_reassignments", (0, 1), (0, 1)),
    46: Api("list_partition_reassignments", (0, 0), (0, 0)),
    47: Api("offset_delete", (0, 0), None),
    48: Api("describe_client_quotas", (0, 1), None),
    49: Api("alter_client_quotas", (0, 1), (0, 1)),
    50: Api("describe_user_scram_credentials", (0, 0), (0, 0)),
    51: Api("alter_user_scram_credentials", (0, 0), (0, 0)),
    52: Api("vote", None, (0, 2)),
    53: Api("begin_quorum_epoch", None, (0, 1)),
    54: Api("end_quorum_epoch", None, (0, 1)),
    55: Api("describe_quorum", (0, 2), (0, 2)),
    56: Api("alter_partition", None, (2, 3)),
    57: Api("update_features", (0, 2), (0, 2)),
    58: Api("envelope", None, (0, 0)),
    59: Api("fetch_snapshot", None, (0, 1)),
    60: Api("describe_cluster", (0, 2), (0, 2)),
    61: Api("describe_producers", (0, 0), None),
    62: Api("broker_registration", None, (0, 4)),
    63: Api("broker_heartbeat", None, (0, 2)),
    64: Api("unregister_broker", (0, 0), (0, 0)),
    65: Api("describe_transactions", (0, 0), None),
    66: Api("list_transactions", (0, 2), None),
    67: Api("allocate_producer_ids", None, (0, 0)),
    68: Api("consumer_group_heartbeat", (0, 1), None),
    69: Api("consumer_group_describe", (0, 1), None),
    70: Api("controller_registration", None, (0, 0)),
    73: Api("assign_replicas_to_dirs", None, (0, 0)),
    74: Api("list_config_resources", (0, 1), None),
    75: Api("describe_topic_partitions", (0, 0), None),
    76: Api("share_group_heartbeat", (1, 1), None),
    77: Api("share_group_describe", (1, 1), None),
    78: Api("share_fetch", (1, 2), None),
    79: Api("share_acknowledge", (1, 2), None),
    80: Api("add_raft_voter", (0, 1), (0, 1)),
    81: Api("remove_raft_voter", (0, 0), (0, 0)),
    82: Api("update_raft_voter", None, (0, 0)),
    83: Api("initialize_share_group_state", (0, 0), None),
    84: Api("read_share_group_state", (0, 0), None),
    85: Api("write_share_group_state", (0, 1), None),
    86: Api("delete_share_group_state", (0, 0), None),
    87: Api("read_share_group_state_summary", (0, 1), None),
    88: Api("streams_group_heartbeat", (0, 0), None),
    89: Api("streams_group_describe", (0, 0), None),
    90: Api("describe_share_group_offsets", (0, 1), None),
    91: Api("alter_share_group_offsets", (0, 0), None),
    92: Api("delete_share_group_offsets", (0, 0), None),
    71: Api("get_telemetry_subscriptions", None, None),
    72: Api("push_telemetry", None, None),
}

_classes: dict[int, tuple[type[Request], type[Response]]] = {}


def message_classes(api_key: int) -> tuple[type[Request], type[Response]]:
    """The request and response class of an API, imported on first use."""
    if api_key not in _classes:
        module = importlib.import_module(f"barnabas.wire.messages.{APIS[api_key].name}")
        found = [item for item in vars(module).values() if getattr(item, "api_key", None) == api_key]
        request = next(item for item in found if issubclass(item, Request))
        response = next(item for item in found if issubclass(item, Response))
        _classes[api_key] = (request, response)
    return _classes[api_key]


def request_header_version(request: type[Request], version: int) -> int:
    return 2 if version >= request.flexible_since else 1


def response_header_version(request: type[Request], version: int) -> int:
    """ApiVersions answers with header 0 always, so that a client can read it before it knows anything."""
    return 1 if version >= request.flexible_since and request.api_key != 18 else 0
