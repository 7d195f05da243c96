"""`kafka-features`: describes, upgrades and downgrades the cluster's features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cli.arguments.feature_levels import (
    METADATA_VERSION,
    dependency_lines,
    level_of,
    levels_at,
    mapping_lines,
    parse_feature,
    release_name,
)
from barnabas.cli.connect import (
    BOOTSTRAP_CONTROLLER,
    BOOTSTRAP_SERVER_ONLY,
    COMMAND_CONFIG,
    OUTPUT,
    connect,
    wants_json,
)
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Option, Parsed, Parser, option
from barnabas.cli.output import print_json
from barnabas.client.admin.configs import require_broker
from barnabas.client.admin.refusals import words

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

MISSING = "You must specify either --bootstrap-controller or --bootstrap-server."
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
FEATURE = option("--feature", takes="feature=level", repeated=True, help="The feature and its level; may be repeated.")
RELEASE = option("--release-version", takes="release", help="All features as of a release, for instance 4.0.")
METADATA = option("--metadata", takes="release", help="Of older versions: the level of metadata.version.", hidden=True)
UNSAFE = option("--unsafe", help="Even if metadata is lost by it.")
DRY_RUN = option("--dry-run", help="Only say whether it could be done.")
CHANGES: tuple[Option, ...] = (METADATA, RELEASE, FEATURE, DRY_RUN)

PARSER = Parser(
    name="features",
    summary="Describes, upgrades and downgrades the cluster's features.",
    options=(BOOTSTRAP_SERVER_ONLY, BOOTSTRAP_CONTROLLER, COMMAND_CONFIG, OUTPUT),
    help_exit=0,
    commands=(
        Parser(
            name="describe",
            summary="Describe the features and their levels.",
            options=(option("--node-id", takes="id", kind=int, help="The node to ask."),),
        ),
        Parser(name="upgrade", summary="Upgrade features.", options=CHANGES),
        Parser(name="downgrade", summary="Downgrade features.", options=(*CHANGES, UNSAFE)),
        Parser(
            name="disable",
            summary="Downgrade features to level 0.",
            options=(
                option("--feature", takes="feature", repeated=True, help="The feature; may be repeated."),
                UNSAFE,
                DRY_RUN,
            ),
        ),
        Parser(name="version-mapping", summary="The features of a release.", options=(RELEASE,)),
        Parser(name="feature-dependencies", summary="What levels of features need.", options=(FEATURE,)),
    ),
)


def run(parsed: Parsed) -> int:
    if parsed.command == "version-mapping":
        print("\n".join(mapping_lines(parsed.text("release-version"))))
    elif parsed.command == "feature-dependencies":
        if "feature" not in parsed:
            raise UsageError("argument --feature is required")
        print("\n".join(dependency_lines(parsed.texts("feature"))))
    else:
        if parsed.command != "describe":
            if parsed.command != "disable" and "metadata" in parsed:
                print(" `metadata` flag is deprecated and may be removed in a future release.")
            _changes(parsed)  # mistakes are told before the cluster is asked
        with connect(parsed, missing=MISSING) as cluster:
            if parsed.command == "describe":
                _describe(cluster, parsed)
            else:
                _change(cluster, parsed)
    return 0


def _describe(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.wire.messages.api_versions import ApiVersionsRequest

    node_id = parsed.number("node-id")
    if node_id is not None and "bootstrap-controller" not in parsed:
        require_broker(cluster, node_id)
    request = ApiVersionsRequest(client_software_name="barnabas", client_software_version="0")
    answer = cluster.ask(request) if node_id is None else cluster.ask_node(node_id, request)
    finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    epoch = answer.finalized_features_epoch
    shown = [
        {
            "feature": feature.name,
            "supportedMinVersion": _level(feature.name, feature.min_version),
            "supportedMaxVersion": _level(feature.name, feature.max_version),
            "finalizedVersionLevel": _level(feature.name, finalized.get(feature.name, 0)),
            "epoch": epoch if epoch >= 0 else None,
        }
        for feature in sorted(answer.supported_features, key=lambda feature: str(feature.name))
    ]
    if wants_json(parsed):
        print_json(shown)
        return
    for feature in shown:
        print(
            f"Feature: {feature['feature']:<42}SupportedMinVersion: {feature['supportedMinVersion']:<17}"
            f"SupportedMaxVersion: {feature['supportedMaxVersion']:<17}"
            f"FinalizedVersionLevel: {feature['finalizedVersionLevel']:<17}"
            f"Epoch: {'-' if feature['epoch'] is None else feature['epoch']}"
        )


def _level(name: str, level: int) -> str:
    return release_name(level) if name == METADATA_VERSION else str(level)


def _changes(parsed: Parsed) -> dict[str, int]:
    verb = parsed.command or ""
    if verb == "disable":
        levels = dict.fromkeys(parsed.texts("feature"), 0)
        if not levels:
            raise ToolFailed("You must specify at least one feature to disable.")
        return levels
    release, metadata = parsed.text("release-version"), parsed.text("metadata")
    if release is not None:
        if metadata is not None or "feature" in parsed:
            raise ToolFailed("Can not specify `release-version` with other feature flags.")
        level = level_of(release)
        everything = {METADATA_VERSION: level, **levels_at(level)}
        return {name: value for name, value in everything.items() if value or verb == "downgrade"}
    levels = {}
    if metadata is not None:
        levels[METADATA_VERSION] = level_of(metadata)
    for text in parsed.texts("feature"):
        name, level = parse_feature(text)
        if name in levels:
            raise ToolFailed(f"Feature {name} was specified more than once.")
        levels[name] = level
    if not levels:
        raise ToolFailed(f"You must specify at least one feature to {verb}")
    return levels


def _change(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

    verb, dry = parsed.command or "", "dry-run" in parsed
    kind = UPGRADE
    if verb != "upgrade":
        kind = UNSAFE_DOWNGRADE if "unsafe" in parsed else SAFE_DOWNGRADE
    changes = _changes(parsed)
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level in changes.items()
    ]
    answer = cluster.ask_controller(UpdateFeaturesRequest(feature_updates=updates, validate_only=dry))
    problems = {
        result.feature: words(result.error_code, result.error_message) for result in answer.results if result.error_code
    }
    if answer.error_code:
        problems = dict.fromkeys(changes, words(answer.error_code, answer.error_message))
    for name, level in sorted(changes.items()):
        to = "" if verb == "disable" else f" to {level}"
        past = f"{verb}d" if verb.endswith("e") else f"{verb}ed" if verb != "disable" else "disabled"
        if name in problems:
            print(f"{'Can not' if dry else 'Could not'} {verb} {name}{to}. {problems[name]}")
        else:
            print(f"{name} {'can be' if dry else 'was'} {past}{to}.")
    if problems:
        raise ToolFailed(f"{len(problems)} out of {len(changes)} operation(s) failed.")
