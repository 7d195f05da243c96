"""Every path that reads in Confluent's description of its API v3: the answer has the fields that are described.

`make rest-openapi OPENAPI=openapi.yaml`; the description is `api/v3/openapi.yaml` of Confluent's kafka-rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing.rest import Rest
from tests.reference.test_rest import JSON_V2, ask
from tests.support.waiting import wait_until

DESCRIPTION = os.environ.get("BARNABAS_OPENAPI", "")
NOTHING_IS_MOVED = "/clusters/{cluster_id}/topics/{topic_name}/partitions/{partition_id}/reassignment"
NO_AUTHORIZER = "/clusters/{cluster_id}/acls"

pytestmark = pytest.mark.skipif(not DESCRIPTION, reason="BARNABAS_OPENAPI names no description")


class Described:
    def __init__(self, path: str) -> None:
        yaml = pytest.importorskip("yaml")
        self.tree = yaml.safe_load(Path(path).read_text())

    def at(self, node: Any) -> Any:
        while "$ref" in node:
            found = self.tree
            for part in node["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            node = found
        return node

    def fields(self, schema: Any) -> tuple[dict[str, Any], set[str]]:
        """Those there may be, and those there must be."""
        schema = self.at(schema)
        known, needed = dict(schema.get("properties", {})), set(schema.get("required", []))
        for part in schema.get("allOf", []):
            more, needed_too = self.fields(part)
            known |= more
            needed |= needed_too
        return known, needed

    def differences(self, schema: Any, answer: Any, where: str) -> Iterator[str]:
        known, needed = self.fields(schema)
        if not isinstance(answer, dict) or not known:
            return
        yield from (f"{where} lacks {name}" for name in sorted(needed - set(answer)))
        yield from (f"{where} has {name}" for name in sorted(set(answer) - set(known)))
        for name, each in known.items():
            value = answer.get(name)
            if isinstance(value, list) and value:
                yield from self.differences(self.at(each)["items"], value[0], f"{where}.{name}[]")
            else:
                yield from self.differences(each, value, f"{where}.{name}")


def test_answers_have_the_fields_that_are_described(barnabas_node: Any) -> None:
    described = Described(DESCRIPTION)
    with Rest(barnabas_node.bootstrap_servers) as rest:
        names = prepared(rest)
        seen, told = 0, []
        for path, methods in described.tree["paths"].items():
            if "get" not in methods or path == NO_AUTHORIZER:
                continue
            name = "log.retention.ms" if "broker" in path else "retention.ms"
            status, answer = ask(rest, "GET", "/v3" + path.format(**names, name=name))
            if path == NOTHING_IS_MOVED:
                assert status == 404
                continue
            assert status == 200, (path, answer)
            content = described.at(methods["get"]["responses"]["200"])["content"]
            told += described.differences(content["application/json"]["schema"], answer, path)
            seen += 1
    assert told == []
    assert seen > 30


def prepared(rest: Rest) -> dict[str, str]:
    """A topic, a consumer that has read it, and a configuration of all brokers."""
    cluster = ask(rest, "GET", "/v3/clusters")[1]["data"][0]["cluster_id"]
    base = f"/v3/clusters/{cluster}"
    assert ask(rest, "POST", f"{base}/topics", {"topic_name": "described"}, "application/json")[0] == 201
    ask(rest, "POST", "/topics/described", {"records": [{"value": 1}]}, JSON_V2)
    given = {"name": "i", "format": "json", "auto.offset.reset": "earliest"}
    ask(rest, "POST", "/consumers/described", given)
    instance = "/consumers/described/instances/i"
    ask(rest, "POST", f"{instance}/subscription", {"topics": ["described"]})
    wait_until(lambda: ask(rest, "GET", f"{instance}/records")[1])
    change = {"data": [{"name": "log.retention.ms", "value": "900000000"}]}
    assert ask(rest, "POST", f"{base}/broker-configs:alter", change, "application/json")[0] == 204
    (member,) = ask(rest, "GET", f"{base}/consumer-groups/described/consumers")[1]["data"]
    return {
        "cluster_id": cluster,
        "broker_id": "1",
        "consumer_group_id": "described",
        "consumer_id": member["consumer_id"],
        "topic_name": "described",
        "partition_id": "0",
    }
