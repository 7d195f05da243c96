"""The levels of the node's loggers, shown and set as Kafka does with those of a JVM broker.

Levels last until the node stops. TRACE and FATAL are Python's 5 and CRITICAL.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from barnabas.core.controller.configs import Operation
from barnabas.node.configuration.access import broker_id
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.incremental_alter_configs import AlterableConfig

ROOT = "root"
OURS = "barnabas"
LEVELS = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": 5,
    "WARN": logging.WARNING,
}


def logger_levels() -> dict[str, str]:
    """Every logger of ours that exists, and the root, with the level that counts for it."""
    known = logging.root.manager.loggerDict.items()
    ours = {name: each for name, each in known if isinstance(each, logging.Logger) and _is_ours(name)}
    return {name: _level_name(each.getEffectiveLevel()) for name, each in {ROOT: logging.root, **ours}.items()}


def _is_ours(name: str) -> bool:
    return name == OURS or name.startswith(f"{OURS}.")


def _level_name(level: int) -> str:
    """The strictest of Kafka's levels that lets through what this one does."""
    return min(LEVELS, key=lambda name: (LEVELS[name] < level, abs(LEVELS[name] - level)))


def set_levels(node_id: int, resource_name: str, changes: Sequence[AlterableConfig], *, validate_only: bool) -> None:
    """Raises KafkaError before anything is changed."""
    if (given := broker_id(resource_name)) is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {resource_name}")
    if given != node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {node_id}, but received {resource_name}"
        )
    existing = logger_levels()
    for change in changes:
        _check(change, existing)
    if validate_only:
        return
    for change in changes:
        logger = logging.root if change.name == ROOT else logging.getLogger(change.name)
        deletes = change.config_operation == Operation.DELETE
        logger.setLevel(logging.NOTSET if deletes else LEVELS[change.value or ""])


def _check(change: AlterableConfig, existing: dict[str, str]) -> None:
    if change.config_operation not in (Operation.SET, Operation.DELETE):
        if change.config_operation not in tuple(Operation):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        operation = Operation(change.config_operation).name
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{operation} operation is not allowed for the BROKER_LOGGER resource"
        )
    if change.name not in existing:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
    if change.config_operation == Operation.DELETE:
        if change.name == ROOT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed")
    elif change.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"A value is missing for: {change.name}")
    elif change.value not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{change.value} is not a level of the logger {change.name}: {', '.join(LEVELS)} are.",
        )
