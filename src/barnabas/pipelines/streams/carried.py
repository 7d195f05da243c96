"""Which functions travel to Spark's workers whole, and which as names that a worker imports.

cloudpickle sends a function of `__main__` whole and others by name. A worker does not look into the directory of the
script, though, so modules that were found there have to be sent whole as well.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from barnabas.pipelines.streams.errors import TopologyError
from barnabas.pipelines.streams.plan import Plan, SinkStep, SourceStep, Step

OURS = ("barnabas", "pyspark_barnabas", "pyspark")


def send_by_value(plan: Plan) -> None:
    """Functions of modules that a worker would not find, as those of a script's or a test's own, travel whole.
    Those that hold what no other process can have, as a lock or a connection, are told by the operator's name."""
    from pyspark import cloudpickle

    functions = [step.operator for stage in plan.stages for step in stage.steps]
    timestamps = [source.timestamp for stage in plan.stages for source in stage.sources]
    of_functions = {module for one in [*functions, *timestamps] for module in modules_of(one)}
    for name in sorted({*beside_the_script(), *(one for one in of_functions if not is_found(one))}):
        module = sys.modules.get(name)
        if module is not None and name != "__main__" and name.partition(".")[0] not in OURS:
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    for stage in plan.stages:
        parts: list[SourceStep | Step | SinkStep] = [*stage.sources, *stage.steps, *stage.sinks]
        for part in parts:
            try:
                cloudpickle.dumps(part)  # type: ignore[no-untyped-call]
            except Exception as error:
                raise TopologyError(
                    f"{part.name} can't be sent to Spark's workers: {error}", plan.where.get(part.name)
                ) from error


def is_found(name: str) -> bool:
    """Whether a process that has not imported it yet would find this very module under its name."""
    parts = name.split(".")
    if parts[0] in sys.stdlib_module_names:
        return True
    spec, path = None, None
    for end in range(1, len(parts) + 1):
        spec = searched(".".join(parts[:end]), path)
        if spec is None:
            return False
        path = spec.submodule_search_locations
    return spec is not None and spec.origin == getattr(sys.modules.get(name), "__file__", None)


def searched(name: str, path: Any) -> ModuleSpec | None:
    """Looked for anew: importlib.util.find_spec believes what has been imported, from wherever it was."""
    for finder in sys.meta_path:
        spec = finder.find_spec(name, path)
        if spec is not None:
            return spec
    return None


def beside_the_script() -> set[str]:
    """Modules found by a part of the path that workers have not: the script's directory, or what it has added."""
    entries = sorted({str(Path(one).absolute()) for one in sys.path}, key=len, reverse=True)
    known = workers_path()
    if all(entry in known for entry in entries):
        return set()
    found = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        entry = next((one for one in entries if file and file.startswith(one + os.sep)), None)
        if entry is not None and entry not in known:
            found.add(name)
    return found


def workers_path() -> set[str]:
    """Where every Python process of this installation looks for modules."""
    installed = {one for name, one in sysconfig.get_paths().items() if "lib" in name}
    places = [Path(one) for one in {*installed, *site.getsitepackages()}]
    links = [file.read_text().splitlines() for place in places for file in place.glob("*.pth")]
    given = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    zipped = [one for one in sys.path if one.endswith(".zip")]
    places += [place / "lib-dynload" for place in places]
    places += [Path(one) for one in (*given, *zipped, *(line for lines in links for line in lines))]
    return {str(one.absolute()) for one in places}


def modules_of(thing: Any, depth: int = 3) -> set[str]:
    """The modules of the functions in an operator."""
    found = {str(thing.__module__)} if callable(thing) and getattr(thing, "__module__", None) else set()
    if (depth and hasattr(thing, "__dict__") and not callable(thing)) or type(thing).__module__.startswith("barnabas."):
        for value in vars(thing).values() if hasattr(thing, "__dict__") else ():
            for one in value if isinstance(value, (list, tuple)) else (value,):
                if depth:
                    found |= modules_of(one, depth - 1)
    return found
