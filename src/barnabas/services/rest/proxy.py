"""The proxy as its handlers see it."""

from __future__ import annotations

from barnabas.services.rest.consumers import Consumers
from barnabas.services.rest.kafka import Kafka
from barnabas.services.rest.settings import RestSettings
from barnabas.web.calls import Call
from barnabas.web.metrics import HttpMetrics, Sample


class Proxy:
    def __init__(self, settings: RestSettings) -> None:
        self.settings = settings
        self.kafka = Kafka(settings)
        self.consumers = Consumers(self.kafka)
        self.metrics = HttpMetrics("rest", self._gauges)

    def base_url(self, call: Call) -> str:
        """The one that clients are to use: `host.name` if it is set, or what this client used."""
        if self.settings.host_name:
            return f"http://{self.settings.host_name}:{self.settings.port}"
        return call.base_url

    def _gauges(self) -> list[Sample]:
        return [("barnabas_rest_consumers", "Consumer instances that this proxy reads for.", len(self.consumers))]

    def close(self) -> None:
        self.consumers.close()
        self.kafka.close()
