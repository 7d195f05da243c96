"""How a message is declared: one class per message, all its versions in it.

A class names its fields in wire order with their types; what differs between versions stands in the field's
specification (`since`, `field`). Nothing is compiled when a class is defined: constructor, decoders and encoders come
into being on first use (`codec.py`), so that importing a definition costs next to nothing.

    class ListGroupsRequest(Request, key=16, versions="0-5", flexible="3+"):
        states_filter: list[str] = since(4, default_factory=list)

A field outside the version at hand keeps its default when read. When written, it is left out if it is ignorable or
holds its default, and is an error otherwise: dropping what the caller asked for would be a silent lie.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self, TypeAlias, dataclass_transform

Int8: TypeAlias = Annotated[int, "int8"]
Int16: TypeAlias = Annotated[int, "int16"]
UInt16: TypeAlias = Annotated[int, "uint16"]
Int32: TypeAlias = Annotated[int, "int32"]
UInt32: TypeAlias = Annotated[int, "uint32"]
Int64: TypeAlias = Annotated[int, "int64"]
Float64: TypeAlias = Annotated[float, "float64"]
Records: TypeAlias = Annotated[bytes | bytearray | memoryview, "records"]

Buffer: TypeAlias = bytes | bytearray | memoryview

NO_DEFAULT: Any = object()
FOREVER = 1 << 15


def version_range(text: str) -> tuple[int, int]:
    """'4' is one version, '4-7' a range, '4+' has no end, 'none' is empty."""
    if text == "none":
        return (FOREVER, -1)
    if text.endswith("+"):
        return (int(text[:-1]), FOREVER)
    low, _, high = text.partition("-")
    return (int(low), int(high or low))


@dataclass(frozen=True, slots=True)
class FieldSpec:
    versions: str
    default: Any
    default_factory: Callable[[], Any] | None
    nullable: str | None
    tag: int | None
    tagged: str | None
    ignorable: bool
    flexible: str | None


def field(
    versions: str = "0+",
    *,
    default: Any = NO_DEFAULT,
    default_factory: Callable[[], Any] | None = None,
    nullable: str | None = None,
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
    flexible: str | None = None,
) -> Any:
    """`nullable` and `tagged` are version ranges, by default those of the field itself."""
    return FieldSpec(versions, default, default_factory, nullable, tag, tagged, ignorable, flexible)


def since(
    version: int,
    *,
    default: Any = NO_DEFAULT,
    default_factory: Callable[[], Any] | None = None,
    nullable: str | None = None,
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
) -> Any:
    return FieldSpec(f"{version}+", default, default_factory, nullable, tag, tagged, ignorable, None)


@dataclass_transform(kw_only_default=True, field_specifiers=(field, since))
class Struct:
    """A part of a message. Its versions are those of the message around it."""

    def __init__(self, **fields: Any) -> None:
        from barnabas.wire.codec import install_constructor

        install_constructor(type(self))
        type(self).__init__(self, **fields)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


class Message(Struct):
    """What has versions of its own: requests, responses, headers, records."""

    api_key: ClassVar[int] = -1
    valid_versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible_since: ClassVar[int] = FOREVER

    def __init_subclass__(
        cls, *, key: int | None = None, versions: str | None = None, flexible: str = "none", **rest: Any
    ) -> None:
        super().__init_subclass__(**rest)
        if versions is None:
            return
        if key is not None:
            cls.api_key = key
        cls.valid_versions = version_range(versions)
        cls.flexible_since = version_range(flexible)[0]
        cls._decoders = {}
        cls._encoders = {}

    _decoders: ClassVar[dict[int, Callable[[Buffer, int, int], tuple[Any, int]]]]
    _encoders: ClassVar[dict[int, Callable[[Any, bytearray], None]]]

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        return version >= cls.flexible_since

    @classmethod
    def decode(cls, buffer: Buffer, version: int) -> Self:
        """Reads a whole buffer: bytes left over are an error, as they are for Kafka."""
        end = len(buffer)
        message: Self
        message, position = (cls._decoders.get(version) or cls._compile_decoder(version))(buffer, 0, end)
        if position != end:
            from barnabas.wire.primitives import DecodeError

            raise DecodeError(f"{end - position} bytes are left over after {cls.__name__} version {version}")
        return message

    @classmethod
    def decode_from(cls, buffer: Buffer, position: int, version: int) -> tuple[Self, int]:
        return (cls._decoders.get(version) or cls._compile_decoder(version))(buffer, position, len(buffer))

    @classmethod
    def _compile_decoder(cls, version: int) -> Callable[[Buffer, int, int], tuple[Any, int]]:
        from barnabas.wire.codec import compile_decoder

        decoder = cls._decoders[version] = compile_decoder(cls, version)
        return decoder

    @classmethod
    def _compile_encoder(cls, version: int) -> Callable[[Any, bytearray], None]:
        from barnabas.wire.codec import compile_encoder

        encoder = cls._encoders[version] = compile_encoder(cls, version)
        return encoder

    def encode(self, version: int) -> bytearray:
        out = bytearray()
        (self._encoders.get(version) or self._compile_encoder(version))(self, out)
        return out

    def encode_into(self, out: bytearray, version: int) -> None:
        """Appends to `out`, which is left as it was if this fails."""
        (self._encoders.get(version) or self._compile_encoder(version))(self, out)


class Request(Message):
    pass


class Response(Message):
    pass


class Record(Message):
    """What is kept in an internal topic or file."""
