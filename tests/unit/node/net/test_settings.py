from __future__ import annotations

from barnabas.node.net import NetworkSettings, parse_ip_overrides


def test_overrides_name_addresses_and_their_limits() -> None:
    assert parse_ip_overrides("") == {}
    assert parse_ip_overrides("127.0.0.2:5, 10.1.2.3:0") == {"127.0.0.2": 5, "10.1.2.3": 0}
    assert parse_ip_overrides("::1:7") == {"::1": 7}


def test_a_name_stands_for_its_addresses() -> None:
    assert parse_ip_overrides("localhost:3")["127.0.0.1"] == 3


def test_settings_come_from_kafkas_keys_and_queued_bytes_always_have_a_bound() -> None:
    config = {
        "socket.request.max.bytes": 1000,
        "queued.max.request.bytes": -1,
        "socket.listen.backlog.size": 7,
        "socket.send.buffer.bytes": -1,
        "socket.receive.buffer.bytes": 5000,
        "max.connections": 10,
        "max.connections.per.ip": 5,
        "max.connections.per.ip.overrides": "127.0.0.3:1",
        "connections.max.idle.ms": 60_000,
    }
    assert NetworkSettings.of(config.__getitem__) == NetworkSettings(
        request_max_bytes=1000,
        queued_max_bytes=512 << 20,
        backlog=7,
        send_buffer_bytes=-1,
        receive_buffer_bytes=5000,
        max_connections=10,
        max_connections_per_ip=5,
        max_connections_per_ip_overrides={"127.0.0.3": 1},
        max_idle_ms=60_000,
    )
    config["queued.max.request.bytes"] = 12345
    assert NetworkSettings.of(config.__getitem__).queued_max_bytes == 12345
