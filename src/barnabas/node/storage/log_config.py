"""The configuration of one partition's log: a field per topic configuration of Kafka, with Kafka's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from barnabas.wire.compression import Compression

LONG_MAX = 2**63 - 1
SEGMENT_BYTES_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False
    internal_segment_bytes: int | None = None
    validates_records: bool = True  # of the broker: `barnabas.produce.validation`

    # What the append path asks for with every batch, worked out once.
    compacted: bool = field(init=False, repr=False, compare=False, default=False)
    log_append_time: bool = field(init=False, repr=False, compare=False, default=False)
    target_compression: Compression | None = field(init=False, repr=False, compare=False, default=None)
    roll_bytes: int = field(init=False, repr=False, compare=False, default=0)
    roll_ms: int = field(init=False, repr=False, compare=False, default=0)
    opens_records: bool = field(init=False, repr=False, compare=False, default=False)

    def __post_init__(self) -> None:
        derive = object.__setattr__
        derive(self, "compacted", "compact" in self.cleanup_policy)
        derive(self, "log_append_time", self.message_timestamp_type == "LogAppendTime")
        if self.compression_type != "producer":
            derive(self, "target_compression", Compression.named(self.compression_type))
        derive(self, "roll_bytes", self.internal_segment_bytes or self.segment_bytes)
        lag_ms = self.max_compaction_lag_ms if self.compacted and self.max_compaction_lag_ms > 0 else LONG_MAX
        derive(self, "roll_ms", min(self.segment_ms, lag_ms))  # the active segment is never compacted
        bounded = not self.log_append_time and self.message_timestamp_before_max_ms < LONG_MAX
        derive(self, "opens_records", self.compacted or bounded)

    @property
    def compression_level(self) -> int | None:
        levels = {
            Compression.GZIP: self.compression_gzip_level,
            Compression.LZ4: self.compression_lz4_level,
            Compression.ZSTD: self.compression_zstd_level,
        }
        return None if self.target_compression is None else levels.get(self.target_compression)

    @classmethod
    def parse(cls, configs: Mapping[str, str], defaults: LogConfig | None = None) -> LogConfig:
        """Kafka's names and text (`segment.bytes`, "1048576") over `defaults`; names that are not ours are ignored."""
        known = {each.name: each for each in fields(cls) if each.init}
        changes: dict[str, Any] = {}
        for name, text in configs.items():
            attribute = name.replace(".", "_")
            if attribute in known:
                changes[attribute] = parse_value(name, str(known[attribute].type), text)
        return replace(defaults or DEFAULT_LOG_CONFIG, **changes)


def parse_value(name: str, kind: str, text: str) -> object:
    try:
        if kind.startswith("tuple"):
            return tuple(part.strip() for part in text.split(",") if part.strip())
        if kind == "bool":
            return {"true": True, "false": False}[text.strip().lower()]
        if kind == "float":
            return float(text)
        return int(text) if kind.startswith("int") else text
    except (ValueError, KeyError):
        raise ValueError(f"Invalid value {text} for configuration {name}") from None


DEFAULT_LOG_CONFIG = LogConfig()
