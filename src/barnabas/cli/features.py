"""``barnabas features describe|upgrade|downgrade|disable``: the feature levels of a cluster.

``version-mapping`` and ``feature-dependencies`` read a built-in table and don't contact a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import AnswerOptions, ChangeOptions, ClusterOptions, Flag, UsageError
from barnabas.cli.output.advice import nearest, problem_of, problems_of
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.cli.output.table import Sheet

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, AdminError, FeatureMetadata, UpgradeType
    from barnabas.metadata.metadata_version import MetadataVersion

__all__ = ["app", "main"]

app = cluster_app(
    "features",
    "Show, upgrade and downgrade feature levels (metadata.version and others).",
)
main = main_of(app)

_NOTE_TIMEOUT_S = 5.0


@app.command
def describe(*, options: ClusterOptions | None = None) -> int:
    """Show the levels of each feature that the node supports, and the level that the cluster uses.

    For example:

        barnabas features describe
        barnabas features describe --bootstrap-controller localhost:9093 --output json
    """

    async def work(admin: AdminClient) -> Answer:
        found = await admin.describe_features()
        sheet = Sheet(columns=("feature", "lowest", "highest", "in use"))
        documents = []
        for name in sorted({*found.supported, *found.finalized}):
            can, used = found.supported.get(name), found.finalized.get(name)
            levels = {
                "min": can.min if can else None,
                "max": can.max if can else None,
                "level": used.max if used else 0,
            }
            sheet.add(name, *(_level(name, level) for level in levels.values()))
            documents.append({"feature": name, **levels, **_release(name, levels["level"])})
        notes = [] if admin.config.asks_controllers else _hidden(found)
        return Answer({"epoch": found.finalized_epoch, "features": documents}, [sheet], notes)

    return (options or ClusterOptions()).run(work)


@app.command
def upgrade(
    *,
    feature: list[str] | None = None,
    release_version: str | None = None,
    wait: Flag = False,
    options: ChangeOptions | None = None,
) -> int:
    """Upgrade features: all of the given ones, or none.

    For example:

        barnabas features upgrade --release-version 4.3 --dry-run
        barnabas features upgrade --feature transaction.version=2 --feature group.version=1

    Parameters
    ----------
    feature
        A feature and its new level, for example metadata.version=30. May be repeated.
    release_version
        Instead of --feature: a release whose levels to use, for example 4.3 or 4.3-IV0. 'features version-mapping'
        shows them.
    wait
        Return when every live broker uses the new levels.
    """
    from barnabas.clients.admin import UpgradeType

    levels = _wanted(feature, release_version)
    by_release = release_version is not None
    options = options or ChangeOptions()
    return _update(levels, UpgradeType.UPGRADE, "upgraded", options, wait=wait, by_release=by_release)


@app.command
def downgrade(
    *,
    feature: list[str] | None = None,
    release_version: str | None = None,
    unsafe: Flag = False,
    wait: Flag = False,
    options: ChangeOptions | None = None,
) -> int:
    """Downgrade features: all of the given ones, or none.

    For example:

        barnabas features downgrade --release-version 4.2 --dry-run
        barnabas features downgrade --feature metadata.version=29 --dry-run

    Parameters
    ----------
    feature
        A feature and its new level, for example metadata.version=29; 0 disables it. May be repeated.
    release_version
        Instead of --feature: a release whose levels to use, for example 4.2 or 4.2-IV1. 'features version-mapping'
        shows them.
    unsafe
        Downgrade even if metadata is lost.
    wait
        Return when every live broker uses the new levels.
    """
    from barnabas.clients.admin import UpgradeType

    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    levels = _wanted(feature, release_version)
    by_release = release_version is not None
    return _update(levels, kind, "downgraded", options or ChangeOptions(), wait=wait, by_release=by_release)


@app.command
def disable(
    *, feature: list[str], unsafe: Flag = False, wait: Flag = False, options: ChangeOptions | None = None
) -> int:
    """Disable features, by a downgrade to level 0.

    For example:

        barnabas features disable --feature group.version --dry-run

    Parameters
    ----------
    feature
        The name of a feature. May be repeated.
    unsafe
        Downgrade even if metadata is lost.
    wait
        Return when every live broker uses the new levels.
    """
    from barnabas.clients.admin import UpgradeType

    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    return _update(dict.fromkeys(feature, 0), kind, "disabled", options or ChangeOptions(), wait=wait)


@app.command(name="version-mapping")
def version_mapping(*, release_version: str | None = None, options: AnswerOptions | None = None) -> int:
    """Show the feature levels of a cluster that is formatted with a release. Does not contact a cluster.

    For example:

        barnabas features version-mapping
        barnabas features version-mapping --release-version 4.1 --output json

    Parameters
    ----------
    release_version
        The release, for example 4.3, or a level of metadata.version, for example 4.3-IV0. Default: the latest stable.
    """
    from barnabas.metadata.metadata_version import LATEST_PRODUCTION

    version = LATEST_PRODUCTION if release_version is None else _metadata_version(release_version)
    levels = _levels_of(version)
    sheet = Sheet(columns=("feature", "level"))
    for name, level in levels.items():
        sheet.add(name, _level(name, level))
    return (options or AnswerOptions()).give(Answer({"release": str(version), "features": levels}, [sheet]))


@app.command(name="feature-dependencies")
def feature_dependencies(*, feature: list[str], options: AnswerOptions | None = None) -> int:
    """Show which levels of other features a level needs. Does not contact a cluster.

    For example:

        barnabas features feature-dependencies --feature eligible.leader.replicas.version=1

    Parameters
    ----------
    feature
        A feature and its level, for example group.version=1. May be repeated.
    """
    from barnabas.metadata.features import FEATURES, METADATA_VERSION, SUPPORTED_FEATURES

    sheet = Sheet(columns=("feature", "level", "needs"))
    documents = []
    for name, level in _levels(feature).items():
        known = SUPPORTED_FEATURES.get(name)
        if known is None:
            near = nearest(name, SUPPORTED_FEATURES)
            raise UsageError(f"--feature {name}: unknown feature" + (f": did you mean {near}?" if near else ""))
        if not known.contains(level):
            raise UsageError(f"--feature {name}={level}: {name} has the levels {known.min} to {known.max}")
        needs = FEATURES[name].needs if name in FEATURES else ()
        needed = needs[level - 1] if 0 < level <= len(needs) else None
        needed_levels = {} if needed is None else {METADATA_VERSION: int(needed)}
        sheet.add(name, _level(name, level), ", ".join(f"{k}={_level(k, v)}" for k, v in needed_levels.items()) or "-")
        documents.append({"feature": name, "level": level, "needs": needed_levels})
    return (options or AnswerOptions()).give(Answer({"dependencies": documents}, [sheet]))


def _update(
    levels: dict[str, int],
    kind: UpgradeType,
    done: str,
    options: ChangeOptions,
    *,
    wait: bool,
    by_release: bool = False,
) -> int:
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        from barnabas.clients.admin import FeatureUpdate, UpgradeType
        from barnabas.metadata.features import SUPPORTED_FEATURES

        wanted, notes = await _needed(admin, levels, kind) if by_release else (levels, [])
        updates = {name: FeatureUpdate(level, kind) for name, level in wanted.items()}
        if not updates:
            return change_answer([], dry_run=dry_run, notes=[*notes, "no change is needed"])
        if kind == UpgradeType.UPGRADE:
            notes = [*notes, *await _served_nowhere(admin, wanted)]
        results = await admin.update_features(updates, validate_only=dry_run, wait=wait)
        known = (await admin.describe_features()).supported if results.errors else {}
        problems = _update_problems(results.errors, {*known, *SUPPORTED_FEATURES})
        changes = [
            Change("feature", name, done, f"to level {_level(name, wanted[name])}", {"level": wanted[name]})
            for name in results.values
        ]
        return change_answer(changes, problems, dry_run=dry_run, notes=notes)

    return options.run(work, right="ALTER on Cluster")


def _update_problems(errors: Mapping[str, AdminError], known: Iterable[str]) -> list[Problem]:
    """Return problems. Report a common error only once, because levels change together or not at all."""
    names = list(known)
    if len(errors) > 1 and len({(error.code, error.message) for error in errors.values()}) == 1:
        (first, *_) = errors.values()
        problem = problem_of(first, right="ALTER on Cluster")
        return [replace(problem, item="")]
    unknown = {name: error for name, error in errors.items() if name not in names}
    others = {name: error for name, error in errors.items() if name in names}
    problems = problems_of(unknown, names=names, right="ALTER on Cluster")
    return problems + problems_of(others, right="ALTER on Cluster")


async def _needed(admin: AdminClient, levels: Mapping[str, int], kind: UpgradeType) -> tuple[dict[str, int], list[str]]:
    """Return the levels that differ from the cluster's, and notes. An upgrade never disables a feature.

    A feature that the cluster does not know is omitted, because it is disabled there.
    """
    from barnabas.clients.admin import UpgradeType
    from barnabas.metadata.features import FEATURES, METADATA_VERSION

    found = await admin.describe_features()
    newest = found.supported[METADATA_VERSION].max if METADATA_VERSION in found.supported else 0
    wanted: dict[str, int] = {}
    notes: list[str] = []
    for name, level in levels.items():
        is_known = name not in FEATURES or name in found.supported or newest >= FEATURES[name].bootstrap[0]
        current = found.finalized[name].max if name in found.finalized else 0 if name in found.supported else None
        if current == level or (level == 0 and (kind == UpgradeType.UPGRADE or not is_known)):
            if current:
                notes.append(f"{name} stays at level {_level(name, current)}")
            continue
        wanted[name] = level
    return wanted, notes


def _wanted(feature: list[str] | None, release_version: str | None) -> dict[str, int]:
    if bool(feature) == (release_version is not None):
        raise UsageError("use either --feature or --release-version to set the levels")
    return _levels(feature or []) if release_version is None else _levels_of(_metadata_version(release_version))


def _metadata_version(text: str) -> MetadataVersion:
    from barnabas.metadata.metadata_version import MetadataVersion

    try:
        return MetadataVersion.from_version_string(text)
    except ValueError as error:
        raise UsageError(f"--release-version {text}: {error}") from error


def _levels_of(version: MetadataVersion) -> dict[str, int]:
    from barnabas.metadata.features import METADATA_VERSION, default_levels

    return {METADATA_VERSION: int(version), **default_levels(version)}


def _level(name: str, level: int | None) -> str:
    """Format a level, with Kafka's name for it, if any."""
    if level is None:
        return ""
    release = _release(name, level)
    return f"{level} ({release['release']})" if release else str(level)


def _release(name: str, level: int | None) -> dict[str, str]:
    from barnabas.metadata.features import METADATA_VERSION
    from barnabas.metadata.metadata_version import MetadataVersion

    if name != METADATA_VERSION or level is None or level not in MetadataVersion._value2member_map_:
        return {}
    return {"release": str(MetadataVersion(level))}


async def _served_nowhere(admin: AdminClient, levels: Mapping[str, int]) -> list[str]:
    """Return a note about upgraded features whose APIs no live broker serves. Controllers do not check this."""
    if admin.config.asks_controllers:
        return []
    from barnabas.clients.admin import AdminError
    from barnabas.clients.errors import ClientError

    try:
        answers = (await admin.describe_features_of_brokers(timeout_s=_NOTE_TIMEOUT_S)).values()
    except (AdminError, ClientError):  # The note is optional: an upgrade works without it.
        return []
    names = [name for name in levels if levels[name] and all(name in _not_served(found) for found in answers)]
    if not names or not answers:
        return []
    is_one = len(names) == 1
    return [
        f"no broker of this cluster serves {', '.join(names)}: the level{'' if is_one else 's'} of "
        f"{'it' if is_one else 'them'} can be raised, and clients still find the feature{'' if is_one else 's'} missing"
    ]


def _not_served(found: FeatureMetadata) -> list[str]:
    """Return a note about features that the broker hides because it does not serve their APIs.

    The cluster may still have finalized them.
    """
    from barnabas.metadata.features import FEATURES, METADATA_VERSION

    newest = found.supported[METADATA_VERSION].max if METADATA_VERSION in found.supported else 0
    return [
        name
        for name, feature in FEATURES.items()
        if newest >= feature.bootstrap[0] and name not in found.supported and name not in found.finalized
    ]


def _hidden(found: FeatureMetadata) -> list[str]:
    hidden = _not_served(found)
    if not hidden:
        return []
    return [f"this broker does not serve {', '.join(hidden)}; --bootstrap-controller shows the cluster's levels"]


def _levels(texts: list[str]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for text in texts:
        name, _, level = text.partition("=")
        if not name or not level.isdecimal():
            raise UsageError(f"--feature {text}: write the feature and its level, for example metadata.version=30")
        if name in levels:
            raise UsageError(f"--feature {text}: {name} is given twice")
        levels[name] = int(level)
    return levels
