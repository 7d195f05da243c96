"""Between Protobuf's messages and plain Python values."""

from __future__ import annotations

import datetime
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from barnabas.client.serdes.errors import SerdeError

TIMESTAMP = "google.protobuf.Timestamp"
DURATION = "google.protobuf.Duration"
WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
MESSAGE_TYPES = (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_GROUP)


def plain(message: Message) -> Any:
    """Timestamps are aware datetimes, durations are timedeltas, wrapped values are bare."""
    name = message.DESCRIPTOR.full_name
    if name == TIMESTAMP:
        return _from_timestamp(message)
    if name == DURATION:
        return message.ToTimedelta()
    if name in WRAPPERS:
        return message.value
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if is_map(field):
            each = field.message_type.fields_by_name["value"]
            found[field.name] = {key: _plain_item(each, value[key]) for key in value}
        elif field.is_repeated:
            found[field.name] = [_plain_item(field, item) for item in value]
        else:
            found[field.name] = _plain_item(field, value)
    return found


def _plain_item(field: FieldDescriptor, value: Any) -> Any:
    if field.type in MESSAGE_TYPES:
        return plain(value)
    if field.type == FieldDescriptor.TYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else value
    return value


def _from_timestamp(message: Any) -> Any:
    try:
        return message.ToDatetime(datetime.UTC)
    except (ValueError, OverflowError):  # years that Python does not have
        return {"seconds": message.seconds, "nanos": message.nanos}


def fill(message: Message, value: Any, path: str) -> None:
    name = message.DESCRIPTOR.full_name
    try:
        if name == TIMESTAMP and isinstance(value, datetime.datetime):
            message.FromDatetime(value)
            return
        if name == DURATION and isinstance(value, datetime.timedelta):
            message.FromTimedelta(value)
            return
        if name in WRAPPERS and not isinstance(value, dict):
            message.value = value
            return
    except (TypeError, ValueError, OverflowError) as error:
        raise SerdeError(f"{path or 'The value'} is not a {name}: {error}") from None
    if not isinstance(value, dict):
        raise SerdeError(f"{path or 'The value'} should be a dict for {name}, not {type(value).__name__}.")
    fields = message.DESCRIPTOR.fields_by_name
    for key, item in value.items():
        inside = f"{path}.{key}" if path else str(key)
        field = fields.get(key)
        if field is None:
            raise SerdeError(f"{name} has no field {key}.")
        if item is not None:
            _fill_field(message, field, item, inside)


def _fill_field(message: Message, field: FieldDescriptor, value: Any, path: str) -> None:
    try:
        if is_map(field):
            _fill_map(getattr(message, field.name), field, value, path)
        elif field.is_repeated:
            _fill_list(getattr(message, field.name), field, value, path)
        elif field.type in MESSAGE_TYPES:
            inner = getattr(message, field.name)
            inner.SetInParent()
            fill(inner, value, path)
        else:
            setattr(message, field.name, _scalar(field, value, path))
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, SerdeError):
            raise
        raise SerdeError(f"{path} does not fit {field.full_name}: {error}") from None


def _fill_map(target: Any, field: FieldDescriptor, value: Any, path: str) -> None:
    if not isinstance(value, dict):
        raise SerdeError(f"{path} should be a dict, not {type(value).__name__}.")
    each = field.message_type.fields_by_name["value"]
    for key, item in value.items():
        if each.type in MESSAGE_TYPES:
            fill(target[key], item, f"{path}.{key}")
        else:
            target[key] = _scalar(each, item, f"{path}.{key}")


def _fill_list(target: Any, field: FieldDescriptor, value: Any, path: str) -> None:
    if not isinstance(value, list | tuple):
        raise SerdeError(f"{path} should be a list, not {type(value).__name__}.")
    for index, item in enumerate(value):
        if field.type in MESSAGE_TYPES:
            fill(target.add(), item, f"{path}[{index}]")
        else:
            target.append(_scalar(field, item, f"{path}[{index}]"))


def _scalar(field: FieldDescriptor, value: Any, path: str) -> Any:
    if field.type == FieldDescriptor.TYPE_ENUM and isinstance(value, str):
        known = field.enum_type.values_by_name.get(value)
        if known is None:
            raise SerdeError(f"{path}: {field.enum_type.full_name} has no value {value}.")
        return known.number
    return value


def is_map(field: FieldDescriptor) -> bool:
    return bool(
        field.is_repeated and field.type == FieldDescriptor.TYPE_MESSAGE and field.message_type.GetOptions().map_entry
    )
