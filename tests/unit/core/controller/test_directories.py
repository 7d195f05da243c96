from barnabas.core.controller.directories import LOST, MIGRATING, UNASSIGNED, default_directory, is_online
from barnabas.core.metadata.state import BrokerState
from barnabas.wire.uuids import ZERO_UUID, Uuid

FIRST, SECOND = Uuid(b"1" * 16), Uuid(b"2" * 16)


def broker(*log_dirs: Uuid) -> BrokerState:
    return BrokerState(id=1, epoch=0, incarnation_id=ZERO_UUID, log_dirs=list(log_dirs))


def test_a_replica_lies_in_the_only_directory_or_is_not_assigned_yet() -> None:
    assert default_directory(broker(FIRST)) == FIRST
    assert default_directory(broker(FIRST, SECOND)) == UNASSIGNED
    assert default_directory(broker()) == MIGRATING


def test_a_directory_is_online_if_the_broker_has_it_or_has_not_said() -> None:
    assert is_online(broker(FIRST), FIRST)
    assert not is_online(broker(FIRST), SECOND)
    assert is_online(broker(FIRST), UNASSIGNED)
    assert is_online(broker(FIRST), MIGRATING)
    assert not is_online(broker(FIRST), LOST)
    assert is_online(broker(), FIRST)
    assert not is_online(broker(), LOST)
