"""Client quotas: limits for users, client ids, pairs of both, and addresses; kept in the image, told to who asks.

An entity is a set of parts such as `{user: anna, client-id: laptop}`; a part without a name is the default for all
that have no limits of their own. Addresses stand alone. An entry that cannot be set is refused by itself.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.metadata.state import MetadataImage
from barnabas.core.steps import Steps, Stepwise
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import alter_client_quotas as alter
from barnabas.wire.messages import describe_client_quotas as describe
from barnabas.wire.records.metadata import ClientQuotaRecord, EntityData
from barnabas.wire.schema import Record

USER, CLIENT_ID, IP = "user", "client-id", "ip"
# Whole numbers have a greatest one; percentages and rates of mutations may have a fraction.
_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1
USER_KEYS: dict[str, int | None] = {
    "producer_byte_rate": _LONG_MAX,
    "consumer_byte_rate": _LONG_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
IP_KEYS: dict[str, int | None] = {"connection_creation_rate": _INT_MAX}
FRACTION_MAX = 1e-6

EXACT, DEFAULT, ANY = 0, 1, 2
Entity = tuple[tuple[str, str | None], ...]


@Stepwise
def alter_client_quotas(
    image: MetadataImage, request: alter.AlterClientQuotasRequest, *, is_address: Callable[[str], bool]
) -> Steps[ControllerDecision[alter.AlterClientQuotasResponse]]:
    records: list[Record] = []
    results: dict[Entity, alter.ResponseEntryData] = {}
    for entry in request.entries:
        yield
        parts = {part.entity_type: part.entity_name for part in entry.entity}
        entity = tuple(sorted(parts.items(), key=lambda part: part[0]))
        is_twice = entity in results
        result = results[entity] = alter.ResponseEntryData(entity=entry.entity, error_message=None)
        try:
            if is_twice:
                raise _invalid("The entity is there more than once: the first entry counts.")
            records += _changes(image, entity, entry.ops, is_address)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
    response = alter.AlterClientQuotasResponse(entries=list(results.values()))
    return ControllerDecision([] if request.validate_only else records, response)


def _changes(
    image: MetadataImage, entity: Entity, ops: list[alter.OpData], is_address: Callable[[str], bool]
) -> list[Record]:
    check_entity(entity, is_address)
    limits = IP_KEYS if IP in dict(entity) else USER_KEYS
    current = image.client_quotas.get(entity, {})
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    records: list[Record] = []
    for op in {op.key: op for op in ops}.values():
        if op.remove:
            if op.key in current:
                records.append(ClientQuotaRecord(entity=parts, key=op.key, value=0.0, remove=True))
            continue
        _check_value(op.key, op.value, limits)
        if current.get(op.key) != op.value:
            records.append(ClientQuotaRecord(entity=parts, key=op.key, value=op.value))
    return records


def check_entity(entity: Entity, is_address: Callable[[str], bool]) -> None:
    if not entity:
        raise _invalid("An entity without parts.")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"There are no quotas for '{kind}'.")
        if name == "":
            raise _invalid(f"A '{kind}' without a name.")
        if kind == IP and name is not None and not is_address(name):
            raise _invalid(f"'{name}' is no address, and no host of this name is known.")
    if len(entity) > 1 and IP in dict(entity):
        raise _invalid("Quotas of addresses cannot be combined with those of users or client ids.")


def _check_value(key: str, value: float, limits: dict[str, int | None]) -> None:
    if key not in limits:
        raise _invalid(f"This entity has no quota '{key}'.")
    if value <= 0:
        raise _invalid(f"{key} must be more than 0.")
    greatest = limits[key]
    if greatest is None:
        return
    if value > greatest:
        raise _invalid(f"{key} can be {greatest} at most.")
    if abs(value - round(value)) > FRACTION_MAX:
        raise _invalid(f"{key} is a whole number.")


def describe_client_quotas(
    image: MetadataImage, request: describe.DescribeClientQuotasRequest
) -> describe.DescribeClientQuotasResponse:
    components = request.components
    _check_components(components)
    found = []
    for entity, limits in image.client_quotas.items():
        parts = dict(entity)
        if request.strict and len(parts) != len(components):
            continue
        if all(_matches(parts, component) for component in components):
            found.append(_described(entity, limits))
    return describe.DescribeClientQuotasResponse(error_message=None, entries=found)


def _check_components(components: list[describe.ComponentData]) -> None:
    kinds: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _invalid("A component without an entity type.")
        if kind in kinds:
            raise _invalid(f"'{kind}' is there more than once.")
        if component.match_type not in (EXACT, DEFAULT, ANY):
            raise _invalid(f"The match type {component.match_type} is unknown.")
        if (component.match_type == EXACT) != (component.match is not None):
            raise _invalid("An exact match needs a name, and no other match has one.")
        kinds.add(kind)
    for kind in kinds:
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"There are no quotas for '{kind}'.")
    if IP in kinds and len(kinds) > 1:
        raise _invalid("Addresses cannot be asked for together with users or client ids.")


def _matches(parts: dict[str, str | None], component: describe.ComponentData) -> bool:
    if component.entity_type not in parts:
        return False
    name = parts[component.entity_type]
    if component.match_type == EXACT:
        return name == component.match
    return component.match_type == ANY or name is None


def _described(entity: Entity, limits: dict[str, float]) -> describe.EntryData:
    return describe.EntryData(
        entity=[describe.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[describe.ValueData(key=key, value=value) for key, value in limits.items()],
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
