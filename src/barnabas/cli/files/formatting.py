"""Formats log directories as `kafka-storage format` does: files first, `meta.properties` last."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.cli.errors import ToolFailed
from barnabas.client.admin.quotas import ITERATIONS_MIN, MECHANISMS
from barnabas.core.metadata.records import KRAFT_VERSION, METADATA_VERSION
from barnabas.wire.records.metadata import FeatureLevelRecord, UserScramCredentialRecord
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.node.configuration import BrokerConfig


class Format(NamedTuple):
    cluster_id: str
    level: int
    features: Mapping[str, int]  # without metadata.version
    credentials: Sequence[UserScramCredentialRecord]
    is_dynamic: bool  # the quorum's voters are in the log, and not in the configuration
    voters: Sequence[InitialVoter] = ()  # of a quorum of several; without them this node alone


class InitialVoter(NamedTuple):
    """One of `--initial-controllers`."""

    id: int
    host: str
    port: int
    directory_id: Uuid


def initial_voters(text: str) -> list[InitialVoter]:
    """`id@host:port:directory`, separated by commas."""
    voters = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        found = re.fullmatch(r"(\d+)@(?:\[([^\]]+)\]|([^:@]+)):(\d+):([\w-]{22})", entry)
        if found is None or int(found[4]) > 65535:
            raise ToolFailed(
                f"{entry} is not a controller: id@host:port:directory is expected, as 1@localhost:9093:ID."
            )
        try:
            directory_id = Uuid.parse(found[5])
        except ValueError:
            raise ToolFailed(f"{found[5]} is not a directory's id: kafka-storage random-uuid makes one.") from None
        voters.append(InitialVoter(int(found[1]), found[2] or found[3], int(found[4]), directory_id))
    ids = [each.id for each in voters]
    if len(set(ids)) != len(ids) or len({each.directory_id for each in voters}) != len(voters):
        raise ToolFailed("--initial-controllers names a controller or a directory twice.")
    return voters


def bootstrap_records(wanted: Format) -> list[Record]:
    levels = {METADATA_VERSION: wanted.level} | {
        name: level for name, level in sorted(wanted.features.items()) if level and name != KRAFT_VERSION
    }
    return [
        *(FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()),
        *wanted.credentials,
    ]


def format_directory(path: str, config: BrokerConfig, wanted: Format, *, is_metadata: bool) -> None:
    from barnabas.node.storage.directory.directory_lock import DirectoryLock, DirectoryLocked
    from barnabas.node.storage.directory.files import make_directories
    from barnabas.node.storage.directory.meta_properties import MetaProperties, write_meta_properties

    make_directories(path)
    try:
        lock = DirectoryLock(path)
    except DirectoryLocked as error:
        raise ToolFailed(str(error)) from None
    try:
        directory_id = Uuid.random()
        if is_metadata:
            own = (each.directory_id for each in wanted.voters if each.id == int(config.node_id))
            directory_id = next(own, directory_id)
            _write_metadata(path, config, wanted, directory_id)
        write_meta_properties(path, MetaProperties(wanted.cluster_id, int(config.node_id), directory_id))
    finally:
        lock.release()


def _write_metadata(root: str, config: BrokerConfig, wanted: Format, directory_id: Uuid) -> None:
    from barnabas.core.metadata.state import Endpoint
    from barnabas.node.raft.load import LOG_DIRECTORY_NAME
    from barnabas.node.raft.snapshots import BOOTSTRAP_FILE_NAME, FIRST_SNAPSHOT, small_snapshot
    from barnabas.node.raft.voters import voters_record
    from barnabas.node.storage.directory.files import make_directories, write_atomically
    from barnabas.wire.records.raft import KRaftVersionRecord

    now_ms = int(time.time() * 1000)
    records = bootstrap_records(wanted)
    bootstrap = small_snapshot([], records, level=wanted.level, last_contained_ms=0, now_ms=now_ms)
    write_atomically(f"{root}/{BOOTSTRAP_FILE_NAME}", bootstrap)
    if not wanted.is_dynamic:
        return
    make_directories(f"{root}/{LOG_DIRECTORY_NAME}")
    endpoints = [
        Endpoint(each.name, each.host, each.port, each.security_protocol)
        for each in config.advertised_controller_listeners
    ]
    voters = voters_record(int(config.node_id), directory_id, endpoints)
    if wanted.voters:
        name = config.controller_listener_names[0]
        others = [(each.id, each.directory_id, [Endpoint(name, each.host, each.port)]) for each in wanted.voters]
        voters.voters = [voter for each in others for voter in voters_record(*each).voters]
    control = [KRaftVersionRecord(k_raft_version=1), voters]
    first = small_snapshot(control, [], level=wanted.level, last_contained_ms=now_ms, now_ms=now_ms)
    write_atomically(f"{root}/{LOG_DIRECTORY_NAME}/{FIRST_SNAPSHOT.file_name}", first)


def scram_credential(text: str) -> UserScramCredentialRecord:
    """`SCRAM-SHA-256=[name=anna,password=secret,iterations=4096,salt="base64",saltedpassword="base64"]`."""
    import base64
    import hashlib
    import hmac

    found = re.fullmatch(r"(SCRAM-SHA-256|SCRAM-SHA-512)=\[(.*)\]", text)
    if found is None:
        raise ToolFailed(f"{text} is not a SCRAM credential: SCRAM-SHA-256=[name=anna,password=secret] is one.")
    mechanism = found[1]
    given = dict(re.findall(r'([a-z]+)=("[^"]*"|[^,]*)', found[2]))
    given = {key: value.strip('"') for key, value in given.items()}
    name = given.get("name")
    if not name:
        raise ToolFailed(f"You must supply 'name' to add-scram: {mechanism} has none.")
    if ("password" in given) == ("saltedpassword" in given):
        raise ToolFailed("You must supply one of 'password' or 'saltedpassword' to add-scram")
    iterations = int(given.get("iterations", ITERATIONS_MIN))
    if iterations < ITERATIONS_MIN:
        raise ToolFailed(f"The 'iterations' value must be >= {ITERATIONS_MIN} for add-scram using {mechanism}")
    salt = base64.b64decode(given["salt"]) if "salt" in given else os.urandom(32)
    digest = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    if "saltedpassword" in given:
        salted = base64.b64decode(given["saltedpassword"])
    else:
        salted = hashlib.pbkdf2_hmac(digest, given["password"].encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    return UserScramCredentialRecord(
        name=name,
        mechanism=MECHANISMS[mechanism],
        salt=salt,
        stored_key=hashlib.new(digest, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", digest),
        iterations=iterations,
    )
