"""REST proxies over a node and a registry, all processes of their own, and a client that sends whatever it likes."""

from __future__ import annotations

import http.client
import itertools
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.testing.registry import Registry
from barnabas.testing.rest import Rest
from tests.support.service_cluster import ServiceCluster, service_cluster

V2 = "application/vnd.kafka.v2+json"
_numbers = itertools.count(1)


class Api:
    """`api("GET", "/topics")` is the status and the answer, read as JSON where it is JSON."""

    def __init__(self, port: int) -> None:
        self.port = port

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)
        try:
            data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            kind = {"Content-Type": "application/json" if path.startswith("/v3") else V2} if data is not None else {}
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, data, kind | named)
            answer = connection.getresponse()
            text = answer.read()
            if not text:
                return answer.status, None
            try:
                return answer.status, json.loads(text)
            except ValueError:
                return answer.status, text.decode()
        finally:
            connection.close()

    def produce(self, topic: str, form: str, *values: Any, **more: Any) -> tuple[int, Any]:
        body = {"records": [{"value": value} for value in values], **more}
        return self("POST", f"/topics/{topic}", body, Content_Type=f"application/vnd.kafka.{form}.v2+json")


class Stage:
    def __init__(self, node: ServiceCluster, registry: Registry, rests: list[Rest]) -> None:
        self.node, self.registry, self.rests = node, registry, rests
        self.apis = [Api(each.port) for each in rests]
        self.api = self.apis[0]
        _, clusters = self.api("GET", "/v3/clusters")
        self.cluster = f"/v3/clusters/{clusters['data'][0]['cluster_id']}"

    def new_topic(self, partitions: int = 1, **configs: str) -> str:
        name = f"topic-{os.getpid()}-{next(_numbers)}"
        listed = [{"name": key, "value": value} for key, value in configs.items()]
        order = {"topic_name": name, "partitions_count": partitions, "configs": listed}
        status, made = self.api("POST", f"{self.cluster}/topics", order)
        assert status == 201, made
        return name


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with service_cluster() as node, Registry(node.bootstrap_servers) as registry:
        config = {"schema.registry.url": registry.url}
        with Rest(node.bootstrap_servers, config) as one, Rest(node.bootstrap_servers, config) as other:
            yield Stage(node, registry, [one, other])


@pytest.fixture
def api(stage: Stage) -> Api:
    return stage.api
