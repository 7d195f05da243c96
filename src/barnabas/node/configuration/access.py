"""The kinds of resources that have configs, and which permission guards each."""

from __future__ import annotations

from barnabas.core.controller.configs import ALTERABLE, GROUP_RESOURCE
from barnabas.core.metadata.state import TOPIC_RESOURCE
from barnabas.core.security.model import Resource

BROKER_LOGGER_RESOURCE = 8
DESCRIBABLE = ALTERABLE | {BROKER_LOGGER_RESOURCE}


def secured_by(resource_type: int, name: str) -> Resource:
    """Brokers, their loggers and client metrics belong to the cluster."""
    if resource_type == TOPIC_RESOURCE:
        return Resource.topic(name)
    if resource_type == GROUP_RESOURCE:
        return Resource.group(name)
    return Resource.cluster()


def broker_id(name: str) -> int | None:
    """The number by which a broker or its loggers are named; None if it is none."""
    digits = name[1:] if name[:1] in ("+", "-") else name
    return int(name) if digits.isdecimal() else None
