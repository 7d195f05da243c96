from __future__ import annotations

from barnabas.node.net import parse_ip_overrides


def test_overrides_name_addresses_and_their_limits() -> None:
    assert parse_ip_overrides("") == {}
    assert parse_ip_overrides("127.0.0.2:5, 10.1.2.3:0") == {"127.0.0.2": 5, "10.1.2.3": 0}
    assert parse_ip_overrides("::1:7") == {"::1": 7}


def test_a_name_stands_for_its_addresses() -> None:
    assert parse_ip_overrides("localhost:3")["127.0.0.1"] == 3
