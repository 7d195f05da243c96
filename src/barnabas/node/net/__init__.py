"""Listeners, connections and their buffers."""

from barnabas.node.net.server import NetworkCounters, Server
from barnabas.node.net.settings import Listener, NetworkSettings, parse_ip_overrides

__all__ = ["Listener", "NetworkCounters", "NetworkSettings", "Server", "parse_ip_overrides"]
