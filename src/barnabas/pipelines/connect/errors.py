"""What may go wrong in Connect.

ConnectError            our root
  ConfigError           a setting that makes no sense: the user has to change it
  DataError             a record that cannot be converted, transformed or written: `errors.tolerance` decides
  RetriableError        may heal by itself: tried again within `errors.retry.timeout`
"""

from __future__ import annotations


class ConnectError(Exception):
    java_class = "org.apache.kafka.connect.errors.ConnectException"


class ConfigError(ConnectError):
    java_class = "org.apache.kafka.common.config.ConfigException"

    def __init__(self, text: str, name: str | None = None, value: object = None) -> None:
        self.name = name
        if name is not None:
            text = f"Invalid value {'null' if value is None else value} for configuration {name}" + (
                f": {text}" if text else ""
            )
        super().__init__(text)


class DataError(ConnectError):
    java_class = "org.apache.kafka.connect.errors.DataException"


class RetriableError(ConnectError):
    java_class = "org.apache.kafka.connect.errors.RetriableException"
