"""Resources of v3: what kind they are, where they are, and what belongs to them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from barnabas.services.rest import errors
from barnabas.services.rest.proxy import Proxy
from barnabas.web.calls import Call
from barnabas.web.errors import HttpError

Tree = dict[str, Any]
EMPTY_BODY = "Request body is empty. Data is required."
NULL_BODY = "Null input provided. Data is required."


class Place:
    """A cluster as this request sees it: its address, and its name in resource names."""

    def __init__(self, base: str, cluster_id: str) -> None:
        self.base = base
        self.cluster_id = cluster_id

    def url(self, *segments: object) -> str:
        path = "/".join(quote(str(each), safe="-_.~:*") for each in segments)
        return f"{self.base}/v3/clusters/{self.cluster_id}{'/' if path else ''}{path}"

    def related(self, *segments: object) -> Tree:
        return {"related": self.url(*segments)}

    def resource(self, kind: str, url: str, crn: str, **fields: Any) -> Tree:
        name = f"crn:///kafka={self.cluster_id}{'/' if crn else ''}{crn}"
        return {
            "kind": kind,
            "metadata": {"self": url, "resource_name": name},
            "cluster_id": self.cluster_id,
            **fields,
        }


def collection(kind: str, url: str, items: Iterable[Tree]) -> Tree:
    return {"kind": f"{kind}List", "metadata": {"self": url, "next": None}, "data": list(items)}


async def place_of(proxy: Proxy, call: Call) -> Place:
    """Raises 404 for a cluster that is another."""
    cluster_id = await proxy.kafka.cluster_id()
    if call.parameters["cluster"] != cluster_id:
        raise HttpError(404, 404, f"Cluster {call.parameters['cluster']} cannot be found.")
    return Place(proxy.base_url(call), cluster_id)


def number(text: str) -> int:
    """Of a broker or a partition; what is no number is not found."""
    if not text.isdecimal() or len(text) > 10:
        raise not_found()
    return int(text)


def not_found(message: str = "HTTP 404 Not Found") -> HttpError:
    return HttpError(404, 404, message)


def config_value(tree: Tree) -> str | None:
    """The value of a configuration as Kafka has it: clients write numbers and booleans as such, too."""
    value = tree.get("value")
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, bool | int | float):
        raise errors.bad_request("value is not a string.")
    return json.dumps(value)


async def object_of(call: Call, empty: str = NULL_BODY) -> Tree:
    """`empty` is told of a body that is not there."""
    tree = await call.tree()
    if tree is None:
        raise errors.invalid_payload(empty)
    if not isinstance(tree, dict):
        raise errors.bad_request("An object is needed.")
    return tree
