"""The APIs that exist: where each is served, and the module of its handler, imported when the first request arrives.

A module has `handle`, by which the node that is asked answers, or `decide`, by which the active controller does, or
both: then `handle` does what belongs to the node and hands the rest over.
"""

from __future__ import annotations

import importlib
from enum import Flag, auto
from types import ModuleType
from typing import NamedTuple


class Served(Flag):
    BROKER = auto()  # on the listeners of brokers, by the node that is asked
    CONTROLLER = auto()  # on the listeners of controllers, by the node that is asked
    FORWARDED = auto()  # on both, by the active controller
    ACTIVE = auto()  # on the listeners of controllers alone, by the active one


class Api(NamedTuple):
    module: str
    served: Served


BROKER, CONTROLLER, FORWARDED, ACTIVE = Served.BROKER, Served.CONTROLLER, Served.FORWARDED, Served.ACTIVE

HANDLERS: dict[int, Api] = {
    0: Api("k00_produce", BROKER),
    1: Api("k01_fetch", BROKER | CONTROLLER),
    2: Api("k02_list_offsets", BROKER),
    3: Api("k03_metadata", BROKER),
    8: Api("k08_offset_commit", BROKER),
    9: Api("k09_offset_fetch", BROKER),
    10: Api("k10_find_coordinator", BROKER),
    11: Api("k11_join_group", BROKER),
    12: Api("k12_heartbeat", BROKER),
    13: Api("k13_leave_group", BROKER),
    14: Api("k14_sync_group", BROKER),
    15: Api("k15_describe_groups", BROKER),
    16: Api("k16_list_groups", BROKER),
    17: Api("k17_sasl_handshake", BROKER | CONTROLLER),
    18: Api("k18_api_versions", BROKER | CONTROLLER),
    19: Api("k19_create_topics", FORWARDED),
    20: Api("k20_delete_topics", FORWARDED),
    21: Api("k21_delete_records", BROKER),
    22: Api("k22_init_producer_id", BROKER),
    23: Api("k23_offset_for_leader_epoch", BROKER),
    24: Api("k24_add_partitions_to_txn", BROKER),
    25: Api("k25_add_offsets_to_txn", BROKER),
    26: Api("k26_end_txn", BROKER),
    27: Api("k27_write_txn_markers", BROKER),
    28: Api("k28_txn_offset_commit", BROKER),
    29: Api("k29_describe_acls", BROKER | CONTROLLER),
    30: Api("k30_create_acls", FORWARDED),
    31: Api("k31_delete_acls", FORWARDED),
    32: Api("k32_describe_configs", BROKER | CONTROLLER),
    33: Api("k33_alter_configs", FORWARDED),
    34: Api("k34_alter_replica_log_dirs", BROKER),
    35: Api("k35_describe_log_dirs", BROKER),
    36: Api("k36_sasl_authenticate", BROKER | CONTROLLER),
    37: Api("k37_create_partitions", FORWARDED),
    38: Api("k38_create_delegation_token", FORWARDED),
    39: Api("k39_renew_delegation_token", FORWARDED),
    40: Api("k40_expire_delegation_token", FORWARDED),
    41: Api("k41_describe_delegation_token", BROKER | CONTROLLER),
    42: Api("k42_delete_groups", BROKER),
    43: Api("k43_elect_leaders", FORWARDED),
    44: Api("k44_incremental_alter_configs", FORWARDED),
    45: Api("k45_alter_partition_reassignments", FORWARDED),
    46: Api("k46_list_partition_reassignments", FORWARDED),
    47: Api("k47_offset_delete", BROKER),
    48: Api("k48_describe_client_quotas", BROKER),
    49: Api("k49_alter_client_quotas", FORWARDED),
    50: Api("k50_describe_user_scram_credentials", BROKER | CONTROLLER),
    51: Api("k51_alter_user_scram_credentials", FORWARDED),
    52: Api("k52_vote", CONTROLLER),
    53: Api("k53_begin_quorum_epoch", CONTROLLER),
    54: Api("k54_end_quorum_epoch", CONTROLLER),
    55: Api("k55_describe_quorum", FORWARDED),
    56: Api("k56_alter_partition", ACTIVE),
    57: Api("k57_update_features", FORWARDED),
    58: Api("k58_envelope", CONTROLLER),
    59: Api("k59_fetch_snapshot", CONTROLLER),
    60: Api("k60_describe_cluster", BROKER | CONTROLLER),
    61: Api("k61_describe_producers", BROKER),
    62: Api("k62_broker_registration", ACTIVE),
    63: Api("k63_broker_heartbeat", ACTIVE),
    64: Api("k64_unregister_broker", FORWARDED),
    65: Api("k65_describe_transactions", BROKER),
    66: Api("k66_list_transactions", BROKER),
    67: Api("k67_allocate_producer_ids", ACTIVE),
    68: Api("k68_consumer_group_heartbeat", BROKER),
    69: Api("k69_consumer_group_describe", BROKER),
    70: Api("k70_controller_registration", ACTIVE),
    73: Api("k73_assign_replicas_to_dirs", ACTIVE),
    74: Api("k74_list_config_resources", BROKER),
    75: Api("k75_describe_topic_partitions", BROKER),
    76: Api("k76_share_group_heartbeat", BROKER),
    77: Api("k77_share_group_describe", BROKER),
    78: Api("k78_share_fetch", BROKER),
    79: Api("k79_share_acknowledge", BROKER),
    80: Api("k80_add_raft_voter", FORWARDED),
    81: Api("k81_remove_raft_voter", FORWARDED),
    82: Api("k82_update_raft_voter", CONTROLLER),
    83: Api("k83_initialize_share_group_state", BROKER),
    84: Api("k84_read_share_group_state", BROKER),
    85: Api("k85_write_share_group_state", BROKER),
    86: Api("k86_delete_share_group_state", BROKER),
    87: Api("k87_read_share_group_state_summary", BROKER),
    88: Api("k88_streams_group_heartbeat", BROKER),
    89: Api("k89_streams_group_describe", BROKER),
    90: Api("k90_describe_share_group_offsets", BROKER),
    91: Api("k91_alter_share_group_offsets", BROKER),
    92: Api("k92_delete_share_group_offsets", BROKER),
}


def handler_module(api_key: int) -> ModuleType:
    return importlib.import_module(f"{__name__}.{HANDLERS[api_key].module}")
