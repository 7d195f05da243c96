"""A registry over a node, both processes of their own, and a client that sends it whatever it likes."""

from __future__ import annotations

import http.client
import itertools
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.testing.registry import Registry
from tests.support.service_cluster import ServiceCluster, service_cluster

V1 = "application/vnd.schemaregistry.v1+json"
_numbers = itertools.count(1)


class Api:
    """`api("GET", "/subjects")` is the status and the answer, read as JSON where it is JSON."""

    def __init__(self, port: int) -> None:
        self.port = port

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            kind = {"Content-Type": V1} if data is not None else {}
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, data, kind | named)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        finally:
            connection.close()

    def text(self, path: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def register(self, subject: str, schema: Any, **more: Any) -> tuple[int, Any]:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self("POST", f"/subjects/{subject}/versions", {"schema": text, **more})


@pytest.fixture(scope="module")
def kafka() -> Iterator[ServiceCluster]:
    with service_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def shared_registry(kafka: ServiceCluster) -> Iterator[Registry]:
    with Registry(kafka.bootstrap_servers) as registry:
        yield registry


@pytest.fixture
def api(shared_registry: Registry) -> Api:
    return Api(shared_registry.port)


@pytest.fixture
def api_of() -> Callable[[Registry], Api]:
    return lambda registry: Api(registry.port)


@pytest.fixture
def subject() -> str:
    return f"subject-{os.getpid()}-{next(_numbers)}"
