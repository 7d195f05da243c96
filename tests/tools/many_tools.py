"""Kafka's tools one after another in one Java process: `java/ManyTools.java`.

Tools that keep their state in static fields have a process of their own, as on the command line.
"""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

from tests.support import reference
from tests.support.reference_libs import classpath_options, java

PROGRAM = Path(__file__).parent / "java" / "ManyTools.java"
ALONE = ("console-", "perf-test", "verifiable", "e2e-latency", "storage")


class ManyTools:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, script: str, arguments: list[str], stdin: str | None) -> tuple[str, str, int]:
        if script.removesuffix(".sh") == "kafka-run-class":
            script, arguments = arguments[0], arguments[1:]
        if any(part in script for part in ALONE):
            done = reference.run_tool(script, *arguments, input=stdin or "")
            return done.stdout, done.stderr, done.returncode
        main_class = reference.TOOLS.get(script.removesuffix(".sh"), script)
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        arguments = [str(Path(word).absolute()) if Path(word).is_file() else word for word in arguments]
        process.stdin.write(_text(main_class) + struct.pack(">i", len(arguments)))
        process.stdin.write(b"".join(map(_text, arguments)) + _text(stdin or ""))
        process.stdin.flush()
        (code,) = struct.unpack(">i", process.stdout.read(4))
        texts = []
        for _ in range(2):
            (size,) = struct.unpack(">i", process.stdout.read(4))
            texts.append(process.stdout.read(size).decode())
        if code == -1:
            code = process.wait()
            self.close()
        return texts[0], texts[1], code

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *classpath_options(), str(PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">i", len(data)) + data
