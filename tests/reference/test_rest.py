"""The REST proxy in front of Apache Kafka: the same answers as in front of a node of ours."""

from __future__ import annotations

import http.client
import itertools
import json
import time
from typing import Any

from barnabas.testing.rest import Rest
from tests.support import reference

V2 = "application/vnd.kafka.v2+json"
JSON_V2 = "application/vnd.kafka.json.v2+json"


def ask(rest: Rest, method: str, path: str, body: Any = None, kind: str = V2) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", rest.port, timeout=90)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": kind, "Accept": "*/*"})
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None
    finally:
        connection.close()


def story(servers: str, suffix: str) -> list[Any]:
    """What is told of a topic that is made, written, read through two proxies, configured and deleted."""
    told: list[Any] = []
    with Rest(servers) as one, Rest(servers) as other:
        cluster = f"/v3/clusters/{ask(one, 'GET', '/v3/clusters')[1]['data'][0]['cluster_id']}"
        order = {"topic_name": f"rest{suffix}", "partitions_count": 2}
        topic = f"{cluster}/topics/rest{suffix}"
        told.append(ask(one, "POST", f"{cluster}/topics", order, "application/json")[0])
        told.append(ask(one, "POST", f"{cluster}/topics", order, "application/json")[1]["error_code"])
        records = {"records": [{"value": number, "partition": number % 2} for number in range(4)]}
        told.append(ask(one, "POST", f"/topics/rest{suffix}", records, JSON_V2))
        told.append(ask(one, "POST", "/topics/never-there", records, JSON_V2))
        told.append(
            ask(one, "POST", f"{topic}/records", {"value": {"type": "STRING", "data": "s"}}, "application/json")[0]
        )
        given = {"name": "i", "format": "binary", "auto.offset.reset": "earliest"}
        told.append(ask(one, "POST", f"/consumers/rest{suffix}", given)[0])
        path = f"/consumers/rest{suffix}/instances/i"
        told.append(ask(one, "POST", f"{path}/subscription", {"topics": [f"rest{suffix}"]}))
        read: list[Any] = []
        until = time.monotonic() + 60
        for rest in itertools.cycle((one, other)):
            read += [each["value"] for each in ask(rest, "GET", f"{path}/records")[1]]
            if len(read) >= 5:
                break
            assert time.monotonic() < until, read
        told.append(sorted(read))
        lags = ask(one, "GET", f"{cluster}/consumer-groups/rest{suffix}/lag-summary")[1]
        told.append((lags["total_lag"], lags["max_lag_instance_id"]))
        changes = {"data": [{"name": "retention.ms", "value": "5000"}]}
        told.append(ask(one, "POST", f"{topic}/configs:alter", changes, "application/json"))
        told.append(ask(one, "GET", f"{topic}/configs/retention.ms")[1]["source"])
        told.append(
            ask(one, "PUT", f"{topic}/configs/retention.ms", {"value": "x"}, "application/json")[1]["error_code"]
        )
        told.append(ask(one, "GET", f"{cluster}/acls")[1]["error_code"])
        told.append(ask(one, "DELETE", path))
        told.append(ask(one, "DELETE", topic))
    return told


def test_a_story_is_told_alike(apache_kafka: reference.ApacheKafka, barnabas_node: Any) -> None:
    theirs, ours = story(apache_kafka.bootstrap_servers, "-story"), story(barnabas_node.bootstrap_servers, "-story")
    assert theirs == ours
    assert theirs[3] == (404, {"error_code": 40401, "message": "Topic not found."})
    assert theirs[8] == (0, "i")
