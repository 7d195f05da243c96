"""Access control lists in v3."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from barnabas.client.admin.acls import (
    OPERATIONS,
    PATTERNS,
    PERMISSIONS,
    RESOURCES,
    UNKNOWN,
    Acl,
    AclFilter,
    create_acls,
    delete_acls,
    describe_acls,
    number_of,
)
from barnabas.services.rest import errors
from barnabas.services.rest.proxy import Proxy
from barnabas.services.rest.v3.resources import Place, Tree, object_of, place_of
from barnabas.web.app import Answer
from barnabas.web.calls import Call

CHOICES = {
    "resource_type": RESOURCES,
    "pattern_type": PATTERNS,
    "operation": OPERATIONS,
    "permission": PERMISSIONS,
}


async def search(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    wanted = _filter(call)
    found = await proxy.kafka.ask(lambda cluster: describe_acls(cluster, wanted))
    asked = {name: each or "" for name, each in wanted._asdict().items()}
    metadata = {"self": f"{place.url('acls')}?{urlencode(asked, safe='*')}", "next": None}
    return {"kind": "KafkaAclList", "metadata": metadata, "data": [_tree(place, each) for each in found]}


async def create(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    acl = _acl(await object_of(call))
    await proxy.kafka.ask(lambda cluster: create_acls(cluster, [acl]))
    return Answer(None, 201, {"location": _url(place, acl)})


async def create_many(proxy: Proxy, call: Call) -> Any:
    await place_of(proxy, call)
    listed = (await object_of(call)).get("data")
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise errors.bad_request("data is not a list.")
    acls = [_acl(each) for each in listed]
    await proxy.kafka.ask(lambda cluster: create_acls(cluster, acls))
    return Answer(None, 201)


async def delete(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    for name in CHOICES:
        if call.text(name, UNKNOWN).upper() == UNKNOWN:
            raise errors.bad_request(f"Bad Request: {name} cannot be unspecified or UNKNOWN")
    wanted = _filter(call)
    found = await proxy.kafka.ask(lambda cluster: delete_acls(cluster, wanted))
    return {"data": [_tree(place, each) for each in found]}


def _filter(call: Call) -> AclFilter:
    chosen = {name: _chosen(name, call.text(name) or "ANY") for name in CHOICES}
    return AclFilter(
        **chosen,
        resource_name=call.text("resource_name") or None,
        principal=call.text("principal") or None,
        host=call.text("host") or None,
    )


def _acl(tree: Tree) -> Acl:
    given = {}
    for name in Acl._fields:
        value = tree.get(name)
        if not isinstance(value, str) or not value:
            raise errors.bad_request(f"{name} is missing.")
        given[name] = _chosen(name, value) if name in CHOICES else value
    return Acl(**given)


def _chosen(name: str, value: str) -> str:
    try:
        number_of(CHOICES[name], value)
    except KeyError:
        if value.upper() == UNKNOWN:
            raise errors.bad_request(f"Bad Request: {name} cannot be UNKNOWN") from None
        raise errors.bad_request(f"{value} is not a {name}; there are {', '.join(CHOICES[name].values())}.") from None
    return value.upper()


def _url(place: Place, acl: Acl) -> str:
    return f"{place.url('acls')}?{urlencode(acl._asdict(), safe='*')}"


def _tree(place: Place, acl: Acl) -> Tree:
    return {"kind": "KafkaAcl", "metadata": {"self": _url(place, acl)}, "cluster_id": place.cluster_id, **acl._asdict()}
