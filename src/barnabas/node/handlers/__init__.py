"""The APIs that exist: key to module, imported when the first request of its kind arrives."""

from __future__ import annotations

HANDLERS: dict[int, str] = {
    0: "k00_produce",
    1: "k01_fetch",
    3: "k03_metadata",
    18: "k18_api_versions",
    19: "k19_create_topics",
    20: "k20_delete_topics",
    37: "k37_create_partitions",
    55: "k55_describe_quorum",
    57: "k57_update_features",
    60: "k60_describe_cluster",
    75: "k75_describe_topic_partitions",
}
