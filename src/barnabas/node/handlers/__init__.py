"""The APIs that exist: key to module, imported when the first request of its kind arrives."""

from __future__ import annotations

HANDLERS: dict[int, str] = {
    0: "k00_produce",
    1: "k01_fetch",
    2: "k02_list_offsets",
    3: "k03_metadata",
    18: "k18_api_versions",
    19: "k19_create_topics",
    20: "k20_delete_topics",
    21: "k21_delete_records",
    22: "k22_init_producer_id",
    23: "k23_offset_for_leader_epoch",
    32: "k32_describe_configs",
    33: "k33_alter_configs",
    34: "k34_alter_replica_log_dirs",
    35: "k35_describe_log_dirs",
    37: "k37_create_partitions",
    44: "k44_incremental_alter_configs",
    55: "k55_describe_quorum",
    57: "k57_update_features",
    60: "k60_describe_cluster",
    61: "k61_describe_producers",
    74: "k74_list_config_resources",
    75: "k75_describe_topic_partitions",
}
