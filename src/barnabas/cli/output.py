"""Printing: tables whose columns are as wide as what they hold, and JSON for `--output json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any


def print_json(value: Any) -> None:
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False, default=str)
    sys.stdout.write("\n")


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]], *, gap: str = " ") -> None:
    """Left-aligned columns; the last one is padded too, as Kafka's tools do."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(header))]
    for row in cells:
        print(gap.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)))
