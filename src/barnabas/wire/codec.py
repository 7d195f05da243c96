"""Compiles declared messages to straight-line Python: one decoder and one encoder per class and version.

`decoder.py` and `encoder.py` write the source. `decoder_source(cls, version).lines` shows what becomes of a message.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from barnabas.wire.primitives import (
    MAX_REQUEST_ELEMENTS,
    CodecError,
    DecodeError,
    EncodeError,
    TooManyElements,
    put_uvarint,
    read_uvarint,
)
from barnabas.wire.schema import Buffer, Message
from barnabas.wire.shapes import fields_of
from barnabas.wire.source import Source

__all__ = [
    "CodecError",
    "DecodeError",
    "EncodeError",
    "TooManyElements",
    "compile_decoder",
    "compile_encoder",
    "compile_stepwise_decoder",
    "compile_stepwise_encoder",
    "install_constructor",
    "put_uvarint",
    "read_uvarint",
]


def install_constructor(cls: type[Any]) -> None:
    source = Source(missing=object())
    fields = fields_of(cls)
    source.add(0, "")
    arguments = []
    for item in fields:
        if item.default_factory is None:
            arguments.append(f"{item.name}={source.constant(item.default)}")
            source.add(1, f"self.{item.name} = {item.name}")
        else:
            arguments.append(f"{item.name}=missing")
            source.add(1, f"if {item.name} is missing:")
            source.set_default(2, item, f"self.{item.name}")
            source.add(1, "else:", f"    self.{item.name} = {item.name}")
    source.lines[0] = f"def __init__(self{', *, ' if arguments else ''}{', '.join(arguments)}):"
    if not fields:
        source.add(1, "pass")
    cls.__init__ = source.compile("__init__", f"{cls.__name__} constructor")


def compile_decoder(
    cls: type[Message], version: int, max_elements: int = MAX_REQUEST_ELEMENTS
) -> Callable[[Buffer, int, int], tuple[Any, int]]:
    from barnabas.wire.decoder import decoder_source

    _require_version(cls, version, DecodeError)
    return decoder_source(cls, version, max_elements).compile("decode", f"{cls.__name__} v{version} decoder")


def compile_stepwise_decoder(
    cls: type[Message], version: int, max_elements: int = MAX_REQUEST_ELEMENTS
) -> Callable[[Buffer, int, int], Generator[None, None, tuple[Any, int]]]:
    from barnabas.wire.decoder import decoder_source

    _require_version(cls, version, DecodeError)
    source = decoder_source(cls, version, max_elements, in_steps=True)
    return source.compile("decode", f"{cls.__name__} v{version} stepwise decoder")


def compile_encoder(cls: type[Message], version: int) -> Callable[[Any, bytearray], None]:
    from barnabas.wire.encoder import encoder_source

    _require_version(cls, version, EncodeError)
    return encoder_source(cls, version).compile("encode", f"{cls.__name__} v{version} encoder")


def compile_stepwise_encoder(
    cls: type[Message], version: int
) -> Callable[[Any, bytearray], Generator[None, None, None]]:
    from barnabas.wire.encoder import encoder_source

    _require_version(cls, version, EncodeError)
    return encoder_source(cls, version, in_steps=True).compile("encode", f"{cls.__name__} v{version} stepwise encoder")


def _require_version(cls: type[Message], version: int, error: type[CodecError]) -> None:
    low, high = cls.valid_versions
    if not low <= version <= high:
        raise error(f"{cls.__name__} has no version {version}")
