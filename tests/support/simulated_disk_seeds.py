"""Stories on a simulated disk by their seeds: which are told is said by the environment, and one that fails is named.

SIMULATION_SEEDS=10000 tells that many, SIMULATION_FIRST=5000 begins elsewhere, SIMULATION_SEED=17 tells one again.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

SLICE = 50
MEMORY = Path("/dev/shm")
LIVES_SHOWN = 2


class Story(Protocol):
    lives: list[list[str]]

    def run(self) -> None: ...


def slices(default: int) -> list[range]:
    """The seeds to be told, some at a time."""
    alone = os.environ.get("SIMULATION_SEED")
    if alone is not None:
        return [range(int(alone), int(alone) + 1)]
    first = int(os.environ.get("SIMULATION_FIRST", "0"))
    end = first + int(os.environ.get("SIMULATION_SEEDS", str(default)))
    return [range(start, min(start + SLICE, end)) for start in range(first, end, SLICE)]


def tell(story_of: Callable[[int, Path], Story], seed: int) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
        story = story_of(seed, Path(directory))
        try:
            story.run()
        except BaseException as error:
            last = "\n\n".join("\n".join(life) for life in story.lives[-LIVES_SHOWN:])
            raise AssertionError(f"SIMULATION_SEED={seed} tells it again: {error}\n{last}") from error
