"""What the proxy answers when it cannot do what it was asked: statuses, codes and texts of Confluent's proxy."""

from __future__ import annotations

from barnabas.client.errors import AuthenticationFailed, BrokerUnreachable, ClientError, Refused, TimedOut
from barnabas.client.serdes import RegistryRefused, RegistryUnreachable
from barnabas.web.errors import HttpError
from barnabas.wire.errors import ErrorCode

FORMAT_MISMATCH = "The requested embedded data format does not match the deserializer for this consumer instance"
MUTUALLY_EXCLUSIVE = "Subscription to topics, partitions and pattern are mutually exclusive."
HOSTED = "This server does not host this topic-partition."
NOT_ALLOWED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
MISTAKES = frozenset(
    {
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.SECURITY_DISABLED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
UNRETRIABLE = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
FENCED = frozenset({ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


def topic_not_found() -> HttpError:
    return HttpError(404, 40401, "Topic not found.")


def partition_not_found() -> HttpError:
    return HttpError(404, 40402, "Partition not found.")


def instance_not_found() -> HttpError:
    return HttpError(404, 40403, "Consumer instance not found.")


def format_mismatch() -> HttpError:
    return HttpError(406, 40601, FORMAT_MISMATCH)


def already_subscribed() -> HttpError:
    return HttpError(409, 40901, MUTUALLY_EXCLUSIVE)


def instance_exists() -> HttpError:
    return HttpError(409, 40902, "Consumer with specified consumer ID already exists in the specified consumer group.")


def illegal_state(message: str) -> HttpError:
    return HttpError(409, 40903, f"Illegal state: {message}")


def missing_schema(part: str) -> HttpError:
    code, noun = (42201, "keys") if part == "key" else (42202, "values")
    return HttpError(422, code, f"Request includes {noun} but does not include {part} schema")


def conversion_failed(message: str) -> HttpError:
    return HttpError(422, 42203, f"Conversion of JSON to Object failed: {message}")


def invalid_consumer(message: str) -> HttpError:
    return HttpError(422, 42204, f"Invalid consumer configuration: {message}")


def invalid_consumer_value(message: str) -> HttpError:
    text = "Invalid consumer configuration. It does not abide by the constraints: "
    return HttpError(422, 40001, text + message)


def invalid_schema(message: str) -> HttpError:
    return HttpError(422, 42205, f"Invalid schema: {message}")


def invalid_payload(message: str) -> HttpError:
    return HttpError(422, 42206, f"Payload error. {message}")


def refused_batch(message: str) -> HttpError:
    return HttpError(422, 42208, message)


def unprocessable(message: str) -> HttpError:
    return HttpError(422, 422, message)


def bad_request(message: str) -> HttpError:
    return HttpError(400, 400, message)


def refusal(error: ClientError) -> HttpError:
    """What Kafka or the registry refused."""
    if isinstance(error, Refused):
        if error.code in UNKNOWN:
            return HttpError(404, 40403, HOSTED)
        if error.code in NOT_ALLOWED:
            return HttpError(403, 40301, error.message)
        if error.code in MISTAKES:
            return HttpError(400, 40002, error.message)
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return HttpError(404, 404, "HTTP 404 Not Found")
    if isinstance(error, AuthenticationFailed):
        return HttpError(401, 40101, str(error))
    if isinstance(error, RegistryRefused):
        if error.status == 404:
            return HttpError(404, error.code, error.message)
        return HttpError(error.status if 400 <= error.status < 600 else 500, error.code, error.message)
    if isinstance(error, RegistryUnreachable):
        return HttpError(500, 50002, str(error))
    if isinstance(error, BrokerUnreachable | TimedOut):
        return HttpError(500, 50003, str(error))
    return HttpError(500, 50002, f"Kafka error: {error}")


def record_code(error: ClientError) -> int:
    """Of one record in an answer of v2."""
    if isinstance(error, AuthenticationFailed):
        return 40101
    if isinstance(error, Refused):
        if error.code in NOT_ALLOWED:
            return 40301
        if error.code in UNRETRIABLE or error.code in MISTAKES:
            return 50002
    return 50003
