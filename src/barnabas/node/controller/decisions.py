"""How the API of each key is decided: the `decide` of its handler module."""

from __future__ import annotations

from barnabas.node.controller.cluster import Deciding
from barnabas.node.handlers import handler_module


def deciding(api_key: int) -> Deciding:
    module = handler_module(api_key)
    return Deciding(*(getattr(module, name, None) for name in ("decide", "prepare", "ask_quorum")))
