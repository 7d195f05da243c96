"""CRC-32C, the checksum of record batches and snapshots.

The package's compiled module is loaded without the package around it: that looks up its own version in the installed
metadata, for which Python reads in half of its e-mail library, and every command and every process we start would wait
for it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any

Checksum = Callable[..., int]


def _load() -> Checksum:
    package = PathFinder.find_spec("crc32c")
    spec = package and PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if spec is None or spec.loader is None:  # installed in a way we do not know
        module: Any = import_module("crc32c")
    else:
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    found: Checksum = module.crc32c
    return found


crc32c = _load()
