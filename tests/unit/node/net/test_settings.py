from __future__ import annotations

import socket
from typing import Any

import pytest

from barnabas.node.net import parse_ip_overrides


def test_overrides_name_addresses_and_their_limits() -> None:
    assert parse_ip_overrides("") == {}
    assert parse_ip_overrides("127.0.0.2:5, 10.1.2.3:0") == {"127.0.0.2": 5, "10.1.2.3": 0}
    assert parse_ip_overrides("::1:7") == {"0:0:0:0:0:0:0:1": 7}


def test_a_name_stands_for_its_addresses() -> None:
    assert parse_ip_overrides("localhost:3")["127.0.0.1"] == 3


def test_a_name_that_nobody_knows_is_left_out_and_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was known when it was set; now the node would not start for it."""
    known = socket.getaddrinfo

    def resolve(host: str, *rest: Any, **options: Any) -> Any:
        if host == "gone.example":
            raise socket.gaierror(-2, "Name or service not known")
        return known(host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert parse_ip_overrides("gone.example:3,127.0.0.2:5") == {"127.0.0.2": 5}
    assert "gone.example" in caplog.text
