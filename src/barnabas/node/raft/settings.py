"""A node's place in the quorum, out of its configuration."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.client.errors import InvalidSetting
from barnabas.client.peer import PeerSettings
from barnabas.client.settings import parse_address
from barnabas.core.raft import Endpoints, RaftConfig, ReplicaKey, Voter, VoterSet
from barnabas.node.configuration import BrokerConfig, ConfigError
from barnabas.node.security.peers import peer_security
from barnabas.wire.uuids import Uuid


def configured_voters(config: BrokerConfig) -> Sequence[int] | None:
    """The ids of `controller.quorum.voters`; empty if only `controller.quorum.bootstrap.servers` says where controllers
    are; None if nothing does, so that this node is the whole quorum."""
    if config.controller_quorum_voters:
        return [voter.id for voter in config.controller_quorum_voters]
    return () if bootstrap_servers(config) or "controller" not in config.process_roles else None


def bootstrap_servers(config: BrokerConfig) -> list[tuple[str, int]]:
    value = config.value("controller.quorum.bootstrap.servers")
    try:
        return [parse_address(each) for each in value] if isinstance(value, tuple) else []
    except InvalidSetting as error:
        raise ConfigError(f"controller.quorum.{error}") from None


def raft_config(config: BrokerConfig, cluster_id: str, directory_id: Uuid) -> RaftConfig:
    """`config` has the ports that were bound."""
    is_controller = "controller" in config.process_roles
    listener = config.controller_listener_names[0]
    endpoints = Endpoints.of((each.name, each.host, each.port) for each in config.advertised_controller_listeners)
    static = VoterSet.static(listener, [(each.id, each.host, each.port) for each in config.controller_quorum_voters])
    if configured_voters(config) is None:
        static = VoterSet([Voter(ReplicaKey(config.node_id), endpoints)])
    servers = bootstrap_servers(config) if not config.controller_quorum_voters else []
    if not is_controller and not len(static) and not servers:
        raise ConfigError(
            "controller.quorum.bootstrap.servers or controller.quorum.voters must say where the controllers are, "
            "because this node is only a broker."
        )
    if is_controller and config.controller_quorum_voters:
        # Where the others find this node is where the list says it is, with the port that was bound.
        own = next(each for each in config.controller_quorum_voters if each.id == config.node_id)
        port = own.port or config.advertised_controller_listeners[0].port
        voters = [(v.id, v.host, port if v.id == config.node_id else v.port) for v in config.controller_quorum_voters]
        static = VoterSet.static(listener, voters)
    return RaftConfig(
        node_id=config.node_id,
        directory_id=directory_id,
        cluster_id=cluster_id,
        listener_name=listener,
        endpoints=endpoints,
        can_become_voter=is_controller,
        static_voters=static,
        bootstrap_servers=servers,
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        fetch_snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
        auto_join=config.controller_quorum_auto_join_enable,
    )


def peer_settings(config: BrokerConfig) -> PeerSettings:
    """Of connections to controllers."""
    listener = config.controller_listener_names[0]
    return PeerSettings(
        client_id=f"raft-client-{config.node_id}",
        security=peer_security(config, listener, "sasl.mechanism.controller.protocol"),
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        connection_setup_timeout_ms=config.controller_quorum_request_timeout_ms,
        reconnect_backoff_max_ms=500,
    )
