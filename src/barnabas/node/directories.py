"""The directories of a node, the one of the metadata log among them: locked, begun, and closed or let go.

What a start that failed has locked is let go as it was; after a start the directories are closed, and the mark of a
clean stop is left in them last of all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.node import open_files
from barnabas.node.configuration import BrokerConfig
from barnabas.node.raft.errors import StartError
from barnabas.node.storage.directory.log_dir import LogDir
from barnabas.node.storage.directory.log_dirs import LogDirs


class Directories:
    def __init__(self, config: BrokerConfig, on_failure: Callable[[LogDir, OSError], None]) -> None:
        """Takes the locks, or raises a StartError."""
        try:
            self.log_dirs = LogDirs(
                config.log_dirs,
                on_failure=on_failure,
                max_open_files=open_files.for_logs(),
                producer_id_expiration_ms=config.producer_id_expiration_ms,
            )
            self.metadata_dir = self._metadata_dir(str(config.metadata_log_dir.absolute()), on_failure)
        except FileExistsError as error:
            raise StartError(f"{error.filename} is to be a log directory and is a file") from error
        except OSError as error:
            raise StartError(f"A log directory cannot be used: {error.filename}: {error.strerror}") from error

    def _metadata_dir(self, path: str, on_failure: Callable[[LogDir, OSError], None]) -> LogDir:
        try:
            found = next((each for each in self.log_dirs.dirs if each.path == path), None)
            if found is None:
                return LogDir(path, handles=self.log_dirs.handles, on_failure=on_failure)
            if found.offline is not None:
                raise found.offline
            return found
        except BaseException:
            for each in self.log_dirs.dirs:
                each.release()
            raise

    @property
    def all(self) -> list[LogDir]:
        dirs = self.log_dirs.dirs
        return [*dirs] if self.metadata_dir in dirs else [*dirs, self.metadata_dir]

    def begin(self) -> None:
        """From now on a crash is an unclean stop."""
        self.log_dirs.begin()
        if self.metadata_dir not in self.log_dirs.dirs:
            self.metadata_dir.begin()
        if self.metadata_dir.offline is not None:
            raise self.metadata_dir.offline

    def release(self) -> None:
        for each in self.all:
            each.release()

    async def close(self, *, clean: bool, broker_epoch: int, high_watermarks: Mapping[tuple[str, int], int]) -> None:
        for each in self.all:
            of_logs = high_watermarks if each in self.log_dirs.dirs else None
            await each.close(clean=clean, broker_epoch=broker_epoch, high_watermarks=of_logs)
