"""``barnabas quotas list|alter``: list and alter quotas of users, clients and IP addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import ChangeOptions, ClusterOptions, Flag, UsageError
from barnabas.cli.arguments.config_options import parse_delete_config, parse_settings
from barnabas.cli.arguments.parameter import Group, Parameter
from barnabas.cli.output.advice import nearest, problems_of
from barnabas.cli.output.answer import Answer, Change, change_answer
from barnabas.cli.output.table import Sheet

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient

__all__ = ["app", "main"]

app = cluster_app("quotas", "List and alter the quotas of users, client ids and IP addresses.")
main = main_of(app)

_QUOTAS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)


@Parameter(name="*", group=Group("Entity", sort_key=50))
@dataclass(kw_only=True)
class QuotaEntities:
    """The entity: a user, a client id, both together, an IP address, or a default."""

    user: str | None = None
    """A user."""
    user_defaults: Flag = False
    """The default of all users without their own quotas."""
    client: str | None = None
    """A client id. With a user, only clients of that user."""
    client_defaults: Flag = False
    """The default of all client ids without their own quotas."""
    ip: str | None = None
    """An IP address."""
    ip_defaults: Flag = False
    """The default of all IP addresses without their own quotas."""

    def parts(self) -> dict[str, str | None]:
        """Return types and names of the entity; None is a default. Raise UsageError."""
        found: dict[str, str | None] = {}
        for kind, name, is_default in (
            ("user", self.user, self.user_defaults),
            ("client-id", self.client, self.client_defaults),
            ("ip", self.ip, self.ip_defaults),
        ):
            option = kind.removesuffix("-id")
            if name is not None and is_default:
                raise UsageError(f"--{option} and --{option}-defaults can't be used together")
            if name == "":
                raise UsageError(f"--{option} needs a name; --{option}-defaults selects the default")
            if name is not None or is_default:
                found[kind] = name
        if "ip" in found and len(found) > 1:
            raise UsageError("an IP address can't be combined with a user or client")
        return found


@app.command(name=["list", "describe"])
def list_(*, strict: Flag = False, entities: QuotaEntities | None = None, options: ClusterOptions | None = None) -> int:
    """List quotas: all, or those of an entity.

    For example:

        barnabas quotas list
        barnabas quotas list --user alice --output json
        barnabas quotas list --user-defaults --strict

    Parameters
    ----------
    strict
        Only the given entity, without a user's quotas for certain clients.
    """
    parts = (entities or QuotaEntities()).parts()

    async def work(admin: AdminClient) -> Answer:
        from barnabas.clients.admin import ClientQuotaFilter, QuotaMatch

        matches = tuple(QuotaMatch(kind, name) for kind, name in parts.items())
        found = await admin.describe_client_quotas(ClientQuotaFilter(matches, strict) if matches else None)
        sheet = Sheet(columns=("whose", "quota", "value"))
        documents = []
        for entity, values in sorted(found.items(), key=lambda row: str(row[0])):
            documents.append({"entity": dict(entity.parts), "quotas": dict(sorted(values.items()))})
            for key, value in sorted(values.items()):
                sheet.add(str(entity), key, f"{value:.15g}")
        notes = [] if sheet.rows else ["no such quotas exist"]
        return Answer({"quotas": documents}, [sheet] if sheet.rows else [], notes)

    return (options or ClusterOptions()).run(work, right="DESCRIBE_CONFIGS on Cluster")


@app.command
def alter(
    *,
    config: list[str] | None = None,
    add_config: list[str] | None = None,
    delete_config: list[str] | None = None,
    wait: Flag = False,
    entities: QuotaEntities | None = None,
    options: ChangeOptions | None = None,
) -> int:
    """Set and remove quotas of an entity.

    Quotas are producer_byte_rate and consumer_byte_rate (bytes per second), request_percentage (of a thread's time),
    controller_mutation_rate, and for IP addresses connection_creation_rate.

    For example:

        barnabas quotas alter --user alice --config producer_byte_rate=1048576
        barnabas quotas alter --user alice --client app --delete-config request_percentage --dry-run
        barnabas quotas alter --ip-defaults --add-config connection_creation_rate=10

    Parameters
    ----------
    config
        A quota as name=number. May be repeated.
    add_config
        Quotas in Kafka's notation, separated by commas. May be repeated.
    delete_config
        Quotas to remove, separated by commas. May be repeated.
    wait
        Return when every live broker has the change.
    """
    parts = (entities or QuotaEntities()).parts()
    if not parts:
        raise UsageError("no entity given: use --user, --client, --ip, or one of their defaults")
    changes: dict[str, float | None] = {
        name: _number(name, text) for name, text in parse_settings(config, add_config).items()
    }
    for name in parse_delete_config(delete_config):
        if name in changes:
            raise UsageError(f"{name}: use either a value or --delete-config, not both")
        changes[name] = None
    if not changes:
        raise UsageError("no change given: use --config name=number, or --delete-config name")
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        from barnabas.clients.admin import ClientQuotaEntity

        entity = ClientQuotaEntity.of(parts)
        results = await admin.alter_client_quotas({entity: changes}, validate_only=dry_run, wait=wait)
        problems = problems_of(results.errors, right="ALTER_CONFIGS on Cluster")
        done = [Change("quotas of", str(entity), "altered", ", ".join(changes), _more(parts, changes))]
        return change_answer(done if not problems else [], problems, dry_run=dry_run)

    return options.run(work, right="ALTER_CONFIGS on Cluster")


def _more(parts: dict[str, str | None], changes: dict[str, float | None]) -> dict[str, object]:
    return {"entity": parts, "quotas": changes}


def _number(name: str, text: str) -> float:
    if name not in _QUOTAS:
        near = nearest(name, _QUOTAS)
        hint = f"did you mean {near}?" if near else f"the quotas are {', '.join(_QUOTAS)}"
        raise UsageError(f"{name} is not a quota: {hint}")
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{name}={text}: a quota must be a number") from None
