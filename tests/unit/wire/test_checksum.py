from __future__ import annotations

import subprocess
import sys

import crc32c as package
import pytest

from barnabas.wire import checksum

CHECK_VALUE = 0xE3069283  # of "123456789", from the catalogue of CRCs


def test_it_is_the_castagnoli_checksum_and_goes_on_where_it_ended() -> None:
    assert checksum.crc32c(b"123456789") == CHECK_VALUE == package.crc32c(b"123456789")
    assert checksum.crc32c(memoryview(b"56789"), checksum.crc32c(b"1234")) == CHECK_VALUE


def test_the_package_itself_is_taken_where_its_module_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nowhere:
        @staticmethod
        def find_spec(*args: object) -> None:
            return None

    monkeypatch.setattr(checksum, "PathFinder", Nowhere)
    assert checksum._load() is package.crc32c


def test_batches_are_read_without_looking_up_versions_of_packages() -> None:
    script = "import sys, barnabas.wire.batch; print('importlib.metadata' in sys.modules, 'email' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "False False\n"
