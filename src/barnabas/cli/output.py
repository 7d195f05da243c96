"""JSON for `--output json`."""

from __future__ import annotations

import sys
from typing import Any


def print_json(value: Any) -> None:
    import json

    json.dump(value, sys.stdout, indent=2, ensure_ascii=False, default=str)
    sys.stdout.write("\n")
