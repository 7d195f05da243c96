"""Levels of Python's loggers, under Kafka's names."""

import logging
from collections.abc import Iterator

import pytest

from barnabas.node.configuration.loggers import logger_levels, set_levels
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.incremental_alter_configs import AlterableConfig

NAME = "barnabas.tested"
SET, DELETE, APPEND = 0, 1, 2


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger(NAME)
    logger.setLevel(logging.WARNING)
    yield logger
    logger.setLevel(logging.NOTSET)


def change(name: str, operation: int, value: str | None) -> AlterableConfig:
    return AlterableConfig(name=name, config_operation=operation, value=value)


def test_our_loggers_and_the_root_are_shown() -> None:
    levels = logger_levels()
    assert levels[NAME] == "WARN"
    assert "root" in levels
    assert all(name == "root" or name.split(".")[0] == "barnabas" for name in levels)


def test_a_level_is_set_and_removed(logger: logging.Logger) -> None:
    set_levels(1, "1", [change(NAME, SET, "TRACE")], validate_only=False)
    assert (logger.level, logger_levels()[NAME]) == (5, "TRACE")
    set_levels(1, "1", [change(NAME, DELETE, None)], validate_only=False)
    assert logger.level == logging.NOTSET


def test_validating_sets_nothing(logger: logging.Logger) -> None:
    set_levels(1, "1", [change(NAME, SET, "DEBUG")], validate_only=True)
    assert logger.level == logging.WARNING


@pytest.mark.parametrize(
    ("node", "changes", "code"),
    [
        ("2", [change(NAME, SET, "INFO")], ErrorCode.INVALID_REQUEST),
        ("x", [change(NAME, SET, "INFO")], ErrorCode.INVALID_REQUEST),
        ("1", [change(NAME, SET, "info")], ErrorCode.INVALID_CONFIG),
        ("1", [change(NAME, SET, None)], ErrorCode.INVALID_REQUEST),
        ("1", [change("barnabas.nowhere", SET, "INFO")], ErrorCode.INVALID_CONFIG),
        ("1", [change("root", DELETE, None)], ErrorCode.INVALID_REQUEST),
        ("1", [change(NAME, APPEND, "INFO")], ErrorCode.INVALID_REQUEST),
        ("1", [change(NAME, 9, "INFO")], ErrorCode.UNKNOWN_SERVER_ERROR),
        ("1", [change(NAME, SET, "DEBUG"), change("barnabas.nowhere", SET, "INFO")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_refused_change_changes_nothing(
    logger: logging.Logger, node: str, changes: list[AlterableConfig], code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as refusal:
        set_levels(1, node, changes, validate_only=False)
    assert refusal.value.code == code
    assert logger.level == logging.WARNING
