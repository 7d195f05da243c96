"""Every path of the proxy, and who answers it."""

from __future__ import annotations

from typing import Any

from barnabas.services.rest.formats import PLAIN_V2, V2_TYPES, v2_type
from barnabas.services.rest.proxy import Proxy
from barnabas.services.rest.v2 import consumers, metadata, produce
from barnabas.services.rest.v3 import acls, clusters, configs, groups, records, topics
from barnabas.web.app import Handler, Route
from barnabas.web.calls import Call

V2 = (PLAIN_V2, "application/json")
V2_RECORDS = (PLAIN_V2, *V2_TYPES, "application/json")
V2_BODIES = (PLAIN_V2, "application/json", "application/octet-stream")
V2_PRODUCED = (*V2_BODIES, *map(v2_type, V2_TYPES.values()))
JSON = ("application/json",)
INSTANCE = "/consumers/{group}/instances/{instance}"
CLUSTER = "/v3/clusters/{cluster}"


async def root(proxy: Proxy, call: Call) -> Any:
    return {}


def v2(method: str, pattern: str, handler: Handler[Proxy]) -> Route[Proxy]:
    return Route(method, pattern, handler, V2, V2_BODIES)


def consumers_v2(method: str, pattern: str, handler: Handler[Proxy]) -> Route[Proxy]:
    """Types of records are taken and given where no records are, too: clients set their headers once."""
    return Route(method, pattern, handler, V2_RECORDS, V2_PRODUCED)


def v3(method: str, pattern: str, handler: Handler[Proxy]) -> Route[Proxy]:
    return Route(method, CLUSTER + pattern, handler, JSON, (*JSON, "application/octet-stream"))


V2_ROUTES = [
    Route("GET", "/", root, V2),
    Route("POST", "/", root, V2),
    v2("GET", "/brokers", metadata.brokers),
    v2("GET", "/topics", metadata.topics),
    v2("GET", "/topics/{topic}", metadata.topic),
    v2("GET", "/topics/{topic}/partitions", metadata.partitions),
    v2("GET", "/topics/{topic}/partitions/{partition}", metadata.partition),
    v2("GET", "/topics/{topic}/partitions/{partition}/offsets", metadata.offsets),
    Route("POST", "/topics/{topic}", produce.produce, V2, V2_PRODUCED),
    Route("POST", "/topics/{topic}/partitions/{partition}", produce.produce, V2, V2_PRODUCED),
    consumers_v2("POST", "/consumers/{group}", consumers.create),
    consumers_v2("DELETE", INSTANCE, consumers.delete),
    consumers_v2("GET", f"{INSTANCE}/subscription", consumers.subscription),
    consumers_v2("POST", f"{INSTANCE}/subscription", consumers.subscribe),
    consumers_v2("DELETE", f"{INSTANCE}/subscription", consumers.unsubscribe),
    consumers_v2("GET", f"{INSTANCE}/assignments", consumers.assignments),
    consumers_v2("POST", f"{INSTANCE}/assignments", consumers.assign),
    consumers_v2("GET", f"{INSTANCE}/offsets", consumers.committed),
    consumers_v2("POST", f"{INSTANCE}/offsets", consumers.commit),
    consumers_v2("POST", f"{INSTANCE}/positions", consumers.seek),
    consumers_v2("POST", f"{INSTANCE}/positions/beginning", consumers.seek_to_beginning),
    consumers_v2("POST", f"{INSTANCE}/positions/end", consumers.seek_to_end),
    Route("GET", f"{INSTANCE}/records", consumers.records, V2_RECORDS),
]

V3_ROUTES = [
    Route("GET", "/v3/clusters", clusters.list_clusters, JSON),
    v3("GET", "", clusters.get_cluster),
    v3("GET", "/brokers", clusters.list_brokers),
    v3("GET", "/brokers/{broker}", clusters.get_broker),
    v3("GET", "/brokers/{broker}/partition-replicas", clusters.replicas_of_broker),
    v3("GET", "/brokers/-/configs", configs.list_all_brokers_configs),
    v3("GET", "/brokers/{broker}/configs", configs.list_configs),
    v3("POST", "/brokers/{broker}/configs:alter", configs.alter_many),
    v3("GET", "/brokers/{broker}/configs/{name}", configs.get_config),
    v3("PUT", "/brokers/{broker}/configs/{name}", configs.set_config),
    v3("DELETE", "/brokers/{broker}/configs/{name}", configs.reset_config),
    v3("GET", "/broker-configs", configs.list_configs),
    v3("POST", "/broker-configs:alter", configs.alter_many),
    v3("GET", "/broker-configs/{name}", configs.get_config),
    v3("PUT", "/broker-configs/{name}", configs.set_config),
    v3("DELETE", "/broker-configs/{name}", configs.reset_config),
    v3("GET", "/topics", topics.list_topics),
    v3("POST", "/topics", topics.new_topic),
    v3("GET", "/topics/{topic}", topics.get_topic),
    v3("PATCH", "/topics/{topic}", topics.update_topic),
    v3("DELETE", "/topics/{topic}", topics.delete_topic),
    v3("GET", "/topics/-/configs", configs.list_all_topics_configs),
    v3("POST", "/topics/-/configs:alter", configs.alter_many_topics),
    v3("GET", "/topics/{topic}/configs", configs.list_configs),
    v3("POST", "/topics/{topic}/configs:alter", configs.alter_many),
    v3("GET", "/topics/{topic}/configs/{name}", configs.get_config),
    v3("PUT", "/topics/{topic}/configs/{name}", configs.set_config),
    v3("DELETE", "/topics/{topic}/configs/{name}", configs.reset_config),
    v3("GET", "/topics/{topic}/partitions", topics.list_partitions),
    v3("GET", "/topics/{topic}/partitions/{partition}", topics.get_partition),
    v3("GET", "/topics/{topic}/partitions/{partition}/offset", topics.partition_offsets),
    v3("GET", "/topics/{topic}/partitions/{partition}/replicas", topics.list_replicas),
    v3("GET", "/topics/{topic}/partitions/{partition}/replicas/{broker}", topics.get_replica),
    v3("GET", "/topics/{topic}/partitions/-/reassignment", topics.list_reassignments),
    v3("GET", "/topics/{topic}/partitions/{partition}/reassignment", topics.get_reassignment),
    v3("POST", "/topics/{topic}/records", records.produce),
    v3("POST", "/topics/{topic}/records:batch", records.produce_batch),
    v3("GET", "/consumer-groups", groups.list_all),
    v3("GET", "/consumer-groups/{group}", groups.get),
    v3("GET", "/consumer-groups/{group}/consumers", groups.consumers),
    v3("GET", "/consumer-groups/{group}/consumers/{consumer}", groups.consumer),
    v3("GET", "/consumer-groups/{group}/consumers/{consumer}/assignments", groups.assignments),
    v3(
        "GET",
        "/consumer-groups/{group}/consumers/{consumer}/assignments/{topic}/partitions/{partition}",
        groups.assignment,
    ),
    v3("GET", "/consumer-groups/{group}/lag-summary", groups.lag_summary),
    v3("GET", "/consumer-groups/{group}/lags", groups.lags),
    v3("GET", "/consumer-groups/{group}/lags/{topic}/partitions/{partition}", groups.lag),
    v3("GET", "/acls", acls.search),
    v3("POST", "/acls", acls.create),
    v3("POST", "/acls:batch", acls.create_many),
    v3("DELETE", "/acls", acls.delete),
]

ROUTES = [*V2_ROUTES, *V3_ROUTES]
