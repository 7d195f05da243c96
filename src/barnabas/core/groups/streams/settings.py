"""What the configuration says about streams groups: the broker's keys, some of which a group may have of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsSettings:
    """Kafka's defaults."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2_147_483_647
    num_standby_replicas: int = 0

    @property
    def assignment_configs(self) -> dict[str, str]:
        """As the group's records keep them: a change is a reason to assign anew."""
        return {"num.standby.replicas": str(self.num_standby_replicas)}
