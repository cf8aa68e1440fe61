"""``barnabas features describe|upgrade|downgrade|disable``: which levels of Kafka's features a cluster uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cli.advice import problems_of
from barnabas.cli.answer import Answer, Change, change_answer
from barnabas.cli.cluster_command import cluster_app, main_of
from barnabas.cli.cluster_options import ChangeOptions, ClusterOptions, Flag, UsageError

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, UpgradeType

__all__ = ["app", "main"]

app = cluster_app(
    "features",
    "Show the levels of features (metadata.version and others), upgrade and downgrade them.",
)
main = main_of(app)


@app.command
def describe(*, options: ClusterOptions | None = None) -> int:
    """Show for each feature which levels the node can do, and which one the cluster uses.

    For example:

        barnabas features describe
        barnabas features describe --bootstrap-controller localhost:9093 --output json
    """

    async def work(admin: AdminClient) -> Answer:
        from barnabas.cli.sheet import Sheet

        found = await admin.describe_features()
        sheet = Sheet(columns=("feature", "lowest", "highest", "in use"))
        names = sorted({*found.supported, *found.finalized})
        documents = []
        for name in names:
            can, used = found.supported.get(name), found.finalized.get(name)
            level = 0 if used is None else used.max
            sheet.add(name, str(can.min) if can else "", str(can.max) if can else "", str(level))
            documents.append(
                {"feature": name, "min": can.min if can else None, "max": can.max if can else None, "level": level}
            )
        return Answer({"epoch": found.finalized_epoch, "features": documents}, [sheet])

    return (options or ClusterOptions()).run(work)


@app.command
def upgrade(*, feature: list[str], wait: Flag = False, options: ChangeOptions | None = None) -> int:
    """Raise the levels of features: all that are given, or none of them.

    For example:

        barnabas features upgrade --feature metadata.version=30 --dry-run
        barnabas features upgrade --feature transaction.version=2 --feature group.version=1

    Parameters
    ----------
    feature
        A feature and its new level, as in metadata.version=30. May be repeated.
    wait
        Return when every live broker goes by the new levels.
    """
    from barnabas.clients.admin import UpgradeType

    return _update(_levels(feature), UpgradeType.UPGRADE, "upgraded", options or ChangeOptions(), wait=wait)


@app.command
def downgrade(
    *, feature: list[str], unsafe: Flag = False, wait: Flag = False, options: ChangeOptions | None = None
) -> int:
    """Lower the levels of features: all that are given, or none of them.

    For example:

        barnabas features downgrade --feature metadata.version=29 --dry-run

    Parameters
    ----------
    feature
        A feature and its new level, as in metadata.version=29; 0 switches it off. May be repeated.
    unsafe
        Also if that loses metadata.
    wait
        Return when every live broker goes by the new levels.
    """
    from barnabas.clients.admin import UpgradeType

    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    return _update(_levels(feature), kind, "downgraded", options or ChangeOptions(), wait=wait)


@app.command
def disable(
    *, feature: list[str], unsafe: Flag = False, wait: Flag = False, options: ChangeOptions | None = None
) -> int:
    """Switch features off, which is a downgrade to level 0.

    For example:

        barnabas features disable --feature group.version --dry-run

    Parameters
    ----------
    feature
        The name of a feature. May be repeated.
    unsafe
        Also if that loses metadata.
    wait
        Return when every live broker goes by the new levels.
    """
    from barnabas.clients.admin import UpgradeType

    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    return _update(dict.fromkeys(feature, 0), kind, "disabled", options or ChangeOptions(), wait=wait)


def _update(levels: dict[str, int], kind: UpgradeType, done: str, options: ChangeOptions, *, wait: bool) -> int:
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        from barnabas.clients.admin import FeatureUpdate

        updates = {name: FeatureUpdate(level, kind) for name, level in levels.items()}
        results = await admin.update_features(updates, validate_only=dry_run, wait=wait)
        known = (await admin.describe_features()).supported if results.errors else {}
        unknown = {name: error for name, error in results.errors.items() if name not in known}
        others = {name: error for name, error in results.errors.items() if name in known}
        problems = problems_of(unknown, names=known, right="ALTER on Cluster")
        problems += problems_of(others, right="ALTER on Cluster")
        changes = [
            Change("feature", name, done, f"to level {levels[name]}", {"level": levels[name]})
            for name in results.values
        ]
        return change_answer(changes, problems, dry_run=dry_run)

    return options.run(work, right="ALTER on Cluster")


def _levels(texts: list[str]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for text in texts:
        name, _, level = text.partition("=")
        if not name or not level.isdecimal():
            raise UsageError(f"--feature {text}: write the feature and its level, as in metadata.version=30")
        if name in levels:
            raise UsageError(f"--feature {text}: {name} is given twice")
        levels[name] = int(level)
    return levels
