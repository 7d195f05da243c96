"""`kafka-storage`: formats log directories and tells about them; random ids; the levels of features.

Deviations from Kafka's: without --release-version directories are formatted at the level our nodes begin with, and
levels from 4.0-IV3 on are known.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.arguments.feature_levels import (
    dependency_lines,
    level_of,
    levels_at,
    mapping_lines,
    parse_feature,
    release_name,
)
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.cli.files.formatting import Format
    from barnabas.node.configuration import BrokerConfig

CONFIG = option("--config", "-c", takes="file", help="The node's configuration.", completes="file")
RELEASE = option("--release-version", "-r", takes="release", help="The release whose features are meant.")
FEATURE = option("--feature", "-f", takes="feature=level", repeated=True, help="A feature's level; may be repeated.")
QUORUM = ("standalone", "no-initial-controllers", "initial-controllers")

PARSER = Parser(
    name="storage",
    summary="Formats log directories and tells about them.",
    help_exit=0,
    commands=(
        Parser(name="info", summary="Tell about the log directories of this node.", options=(CONFIG,)),
        Parser(
            name="format",
            summary="Format the log directories of this node.",
            options=(
                CONFIG,
                option("--cluster-id", "-t", takes="id", help="The cluster's id; random-uuid makes one."),
                option(
                    "--add-scram",
                    "-S",
                    takes="mechanism=[name=...,password=...]",
                    repeated=True,
                    help="A credential that the cluster begins with; may be repeated.",
                ),
                option("--ignore-formatted", "-g", help="Pass over directories that are formatted already."),
                RELEASE,
                FEATURE,
                option("--standalone", "-s", help="This node is the whole quorum."),
                option("--no-initial-controllers", "-N", help="The quorum is made elsewhere."),
                option("--initial-controllers", "-I", takes="id@host:port:directory,...", help="The quorum's voters."),
            ),
        ),
        Parser(name="version-mapping", summary="The features of a release.", options=(RELEASE,)),
        Parser(name="feature-dependencies", summary="What levels of features need.", options=(FEATURE,)),
        Parser(name="random-uuid", summary="Print a random id."),
    ),
)


def run(parsed: Parsed) -> int:
    if parsed.command == "random-uuid":
        print(Uuid.random())
    elif parsed.command == "version-mapping":
        print("\n".join(mapping_lines(parsed.text("release-version"))))
    elif parsed.command == "feature-dependencies":
        if "feature" not in parsed:
            raise UsageError("argument --feature/-f is required")
        print("\n".join(dependency_lines(parsed.texts("feature"))))
    else:
        if parsed.command == "format" and "cluster-id" not in parsed:
            raise UsageError("argument --cluster-id/-t is required")
        if "config" not in parsed:
            raise UsageError("argument --config/-c is required")
        config = _config(parsed.text("config") or "")
        return _info(config) if parsed.command == "info" else _format(parsed, config)
    return 0


def _config(path: str) -> BrokerConfig:
    from barnabas.node.configuration import BrokerConfig, ConfigError
    from barnabas.node.configuration.properties import read_properties

    try:
        return BrokerConfig.from_properties(read_properties(path))
    except ConfigError as error:
        raise ToolFailed(str(error)) from None


def _directories(config: BrokerConfig) -> list[str]:
    return sorted({*map(str, config.log_dirs), str(config.metadata_log_dir)})


def _info(config: BrokerConfig) -> int:
    from barnabas.node.storage.directory.meta_properties import BadMetaProperties, read_meta_properties

    found, problems, shown = [], [], None
    for directory in _directories(config):
        if not os.path.isdir(directory):  # noqa: PTH112
            problems.append(f"{directory} does not exist")
            continue
        found.append(directory)
        try:
            meta = read_meta_properties(directory)
        except BadMetaProperties as error:
            problems.append(str(error))
            continue
        if meta is None:
            problems.append(f"{directory} is not formatted.")
        elif shown is None:
            shown = meta
        elif (meta.cluster_id, meta.node_id) != (shown.cluster_id, shown.node_id):
            problems.append(f"{directory} belongs to node {meta.node_id} of cluster {meta.cluster_id}.")
    if found:
        print(f"Found log director{'y' if len(found) == 1 else 'ies'}:")
        print("".join(f"  {directory}\n" for directory in found))
    if shown is not None:
        print(
            f"Found metadata: {{cluster.id={shown.cluster_id}, directory.id={shown.directory_id}, "
            f"node.id={shown.node_id}, version=1}}\n"
        )
    if problems:
        print(f"Found problem{'s' if len(problems) > 1 else ''}:")
        print("".join(f"  {problem}\n" for problem in problems))
    return 1 if problems else 0


def _format(parsed: Parsed, config: BrokerConfig) -> int:
    from barnabas.cli.files.formatting import bootstrap_records, format_directory
    from barnabas.node.storage.directory.meta_properties import read_meta_properties

    wanted = _wanted(parsed, config)
    fresh = []
    for directory in _directories(config):
        meta = read_meta_properties(directory)
        if meta is None:
            fresh.append(directory)
        elif meta.cluster_id != wanted.cluster_id:
            raise ToolFailed(
                f"Invalid cluster.id in: {directory}/meta.properties. Expected {wanted.cluster_id}, but read "
                f"{meta.cluster_id}"
            )
        elif meta.node_id != int(config.node_id):
            raise ToolFailed(f"{directory} belongs to node {meta.node_id}, and this is node {config.node_id}.")
        elif "ignore-formatted" not in parsed:
            raise ToolFailed(
                f"Log directory {directory} is already formatted. Use --ignore-formatted to ignore this directory and "
                "format the others."
            )
    if not fresh:
        print("All of the log directories are already formatted.")
        return 0
    print(f"Bootstrap metadata: {_shown(bootstrap_records(wanted), wanted.level)}")
    release = release_name(wanted.level)
    for directory in sorted(fresh, key=lambda each: (each != str(config.metadata_log_dir), each)):
        is_metadata = directory == str(config.metadata_log_dir)
        what = "data directory"
        if is_metadata:
            what = "dynamic metadata voter directory" if wanted.is_dynamic else "metadata directory"
        print(f"Formatting {what} {directory} with metadata.version {release}.")
        format_directory(directory, config, wanted, is_metadata=is_metadata)
    return 0


def _wanted(parsed: Parsed, config: BrokerConfig) -> Format:
    from barnabas.cli.files.formatting import Format, initial_voters, scram_credential
    from barnabas.core.metadata.records import FORMATTED_FEATURES, KRAFT_VERSION, LEVEL_MAX, LEVEL_MIN, LEVEL_WRITTEN
    from barnabas.core.metadata.records import SUPPORTED_FEATURES as SUPPORTED

    if sum(name in parsed for name in QUORUM) > 1:
        raise ToolFailed("Only one of --standalone, --no-initial-controllers and --initial-controllers can be given.")
    has_voters = config.is_given("controller.quorum.voters")
    is_dynamic = "standalone" in parsed or "initial-controllers" in parsed
    if not has_voters and not any(name in parsed for name in QUORUM):
        raise ToolFailed(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers."
        )
    if has_voters and is_dynamic:
        raise ToolFailed("controller.quorum.voters is set, so the quorum is not made by --standalone or the like.")
    if "initial-controllers" in parsed and "controller" not in config.process_roles:
        raise ToolFailed("--initial-controllers is for controllers, and this node is only a broker.")
    voters = initial_voters(parsed.text("initial-controllers") or "")
    if voters and int(config.node_id) not in [each.id for each in voters]:
        raise ToolFailed(f"--initial-controllers must contain node {config.node_id}, because it is a controller.")
    release = parsed.text("release-version")
    level = LEVEL_WRITTEN if release is None else level_of(release, unstable=False)
    if not LEVEL_MIN <= level <= LEVEL_MAX:
        raise ToolFailed(
            f"metadata.version {release_name(level)} is not supported: {release_name(LEVEL_MIN)} to "
            f"{release_name(LEVEL_MAX)} are."
        )
    features = {name: value for name, value in levels_at(level).items() if name in FORMATTED_FEATURES}
    for name, value in map(parse_feature, parsed.texts("feature")):
        if name not in SUPPORTED:
            names = ", ".join(sorted(set(SUPPORTED) - {"metadata.version"}))
            raise ToolFailed(f"Unsupported feature: {name}. Supported features are: {names}")
        low, high = SUPPORTED[name]
        if not low <= value <= high:
            raise ToolFailed(f"{name}={value} is not supported: levels {low} to {high} are.")
        if name == "metadata.version":
            level = value
        elif name == KRAFT_VERSION:
            is_dynamic = is_dynamic and value > 0
        else:
            features[name] = value
    credentials = [scram_credential(text) for text in parsed.texts("add-scram")]
    return Format(_cluster_id(parsed.text("cluster-id") or ""), level, features, credentials, is_dynamic, voters)


def _cluster_id(text: str) -> str:
    if not text.strip() or any(letter.isspace() for letter in text):
        raise ToolFailed(f"'{text}' is not a cluster's id: kafka-storage random-uuid makes one.")
    return text


def _shown(records: Sequence[object], level: int) -> str:
    """As Kafka's tool prints what a cluster begins with; secrets are left out."""
    from barnabas.wire.records.metadata import FeatureLevelRecord, UserScramCredentialRecord

    texts = []
    for record in records:
        if isinstance(record, FeatureLevelRecord):
            text = f"FeatureLevelRecord(name='{record.name}', featureLevel={record.feature_level})"
        elif isinstance(record, UserScramCredentialRecord):
            text = f"UserScramCredentialRecord(name='{record.name}', mechanism={record.mechanism})"
        else:
            text = repr(record)
        texts.append(f"ApiMessageAndVersion({text} at version 0)")
    return f"BootstrapMetadata(records=[{', '.join(texts)}], metadataVersionLevel={level}, source=format command)"
