"""Hadoop's file system for local files, but for one thing: it sets the mode of a file without starting `chmod`.

Hadoop starts a process for every file it makes, and a checkpoint gets several a batch: it was half of what they took.
The class is compiled by Spark's own compiler when the start-up archive is made, and lies in a jar beside it.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

SETTING = "spark.hadoop.fs.file.impl"
CLASS = "barnabas.spark.LocalFiles"
SOURCE = """
package barnabas.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) {
                super.setPermission(path, permission);
            } else {
                java.nio.file.Path file = pathToFile(path).toPath();
                Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(permission.toString()));
            }
        }
    }
}
"""


def compile_into(jar: Path, jvm: Any) -> None:
    """`jvm` is that of a session: PySpark's view of it."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(SOURCE)
    with zipfile.ZipFile(jar, "w") as made:
        for name, code in dict(compiler.getBytecodes()).items():
            made.writestr(f"{name.replace('.', '/')}.class", bytes(code))
