"""BrokerRegistration of a broker that is not alone with its controller: it begins fenced, and heartbeats unfence it.

A broker that is registered already and heard of within its session keeps its id to itself: another process that wants
it is refused with DUPLICATE_BROKER_REGISTRATION, unless it has a log directory of the registered one. A directory has
one owner at a time (its lock), so the former process is gone, and whoever was killed and started again need not wait
for its old session. Apache Kafka's controllers let it wait.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.directories import is_reserved
from barnabas.core.controller.liveness import Sessions, TopicRules, leave_isr, stop_uncleanly, tracks_eligible_leaders
from barnabas.core.metadata.records import METADATA_VERSION
from barnabas.core.metadata.state import BrokerState, MetadataImage
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from barnabas.wire.records import metadata as wire
from barnabas.wire.schema import Record


def register(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    sessions: Sessions,
    rules: TopicRules,
    *,
    cluster_id: str,
    now_ms: int,
) -> ControllerDecision[BrokerRegistrationResponse]:
    if request.cluster_id != cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID, f"Broker {request.broker_id} is of cluster {request.cluster_id}."
        )
    former = image.brokers.get(request.broker_id)
    is_same = former is not None and former.incarnation_id == request.incarnation_id
    if former is not None and not is_same:
        _require_free(former, request, sessions, now_ms)
    if request.is_migrating_zk_broker:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Brokers of ZooKeeper clusters cannot register.")
    _check_directories(image, request)
    _check_features(image.features, request)
    epoch = image.offset + 1
    records: list[Record] = []
    if former is not None and is_same:
        epoch = former.epoch
    elif former is not None:
        is_clean = request.previous_broker_epoch == former.epoch
        is_eligible = is_clean or not tracks_eligible_leaders(image)
        records += (leave_isr if is_eligible else stop_uncleanly)(image, former.id, rules)
    amended = former if is_same else None
    record = registration_record(request, epoch, fenced=amended is None or amended.fenced)
    record.in_controlled_shutdown = amended is not None and amended.in_controlled_shutdown
    records.append(record)
    sessions.register(request.broker_id, epoch, image.offset + len(records))
    return ControllerDecision(records, BrokerRegistrationResponse(broker_epoch=epoch), is_atomic=False)


def _require_free(former: BrokerState, request: BrokerRegistrationRequest, sessions: Sessions, now_ms: int) -> None:
    has_its_directory = bool(set(former.log_dirs) & set(request.log_dirs))
    if sessions.is_valid(former, now_ms) and not has_its_directory:
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another process is broker {former.id}, and was heard of within its session.",
        )


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    directories = request.log_dirs
    if not directories or len(set(directories)) != len(directories) or any(map(is_reserved, directories)):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "A broker names each of its log directories once.")
    for broker in image.brokers.values():
        if broker.id != request.broker_id and set(broker.log_dirs) & set(directories):
            raise KafkaError(
                ErrorCode.INVALID_REGISTRATION,
                f"A log directory of broker {request.broker_id} is registered for broker {broker.id}.",
            )


def _check_features(finalized: Mapping[str, int], request: BrokerRegistrationRequest) -> None:
    ranges = {each.name: (each.min_supported_version, each.max_supported_version) for each in request.features}
    broker = f"Broker {request.broker_id}"
    if METADATA_VERSION not in ranges:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"{broker} does not name its {METADATA_VERSION}.")
    for name in sorted({*ranges, *finalized}):
        level, (low, high) = finalized.get(name, 0), ranges.get(name, (0, 0))
        if not low <= level <= high:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{broker} supports {name} from {low} to {high}, and the cluster has {level}.",
            )


def registration_record(request: BrokerRegistrationRequest, epoch: int, *, fenced: bool) -> wire.RegisterBrokerRecord:
    return wire.RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            wire.BrokerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in request.listeners
        ],
        features=[
            wire.BrokerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in request.features
        ],
        rack=request.rack,
        fenced=fenced,
        log_dirs=sorted(request.log_dirs),
    )
