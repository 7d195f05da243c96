"""The configuration of a node, of its topics and of groups, with Kafka's keys."""

from barnabas.node.configuration.broker import BrokerConfig
from barnabas.node.configuration.definition import ConfigError
from barnabas.node.configuration.listeners import ListenerEndpoint, SecurityProtocol

__all__ = ["BrokerConfig", "ConfigError", "ListenerEndpoint", "SecurityProtocol"]
