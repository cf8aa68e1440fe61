"""Our authorizer on a set of ACLs, as ``java/AuthorizerBench`` runs Kafka's: same files, same requests.

It runs in a process of its own, so that its memory can be measured.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from barnabas.common.acl import AclBinding, AclOperation
from barnabas.common.resource import ResourceType
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.acls import binding_of_record
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer
from barnabas.security.principal import Principal
from barnabas.security.request_context import RequestContext

_PAGE_MIB = 4096 / 2**20
_AT_LEAST_S = 0.5

Question = tuple[RequestContext, AclOperation, ResourceType, str]


def main(folder: Path) -> None:
    empty = _resident_mib()
    acls = _read_acls(folder / "acls.tsv")
    gc.collect()
    before = _resident_mib()
    authorizer = StandardAuthorizer()
    authorizer.configure({"super.users": "User:admin"})
    began = time.thread_time()
    authorizer.load_snapshot(acls)
    print("load_s", time.thread_time() - began)
    authorizer.complete_initial_load()
    del acls
    gc.collect()
    print("memory_mib", _resident_mib() - empty)
    print("index_mib", _resident_mib() - before)
    gc.freeze()  # As a node does with what it has loaded.
    questions = [_question(line.split("\t")) for line in (folder / "queries.tsv").read_text().splitlines()]
    names = (folder / "names.txt").read_text().splitlines()
    caller = _context(*(folder / "caller.tsv").read_text().split("\t")[:2])
    decisions = [str(int(authorizer.authorize(*question))) for question in questions]
    masks = authorizer.authorized_operations_many(caller, ResourceType.TOPIC, names)
    decisions += map(str, masks)
    decisions += _by_type(authorizer, questions)
    (folder / "decisions-ours.txt").write_text("\n".join(decisions))
    _time_decisions(authorizer, questions)
    _time_operations(authorizer, caller, names, list(masks))
    _time_changes(authorizer)


def _time_decisions(authorizer: StandardAuthorizer, questions: list[Question]) -> None:
    index: Any = authorizer._index

    def warm() -> None:
        for context, operation, resource_type, name in questions:
            view = index._view(context.principal, context.client_host)
            index._decide(view, resource_type, name) >> operation & 1

    def remembered() -> None:
        views = index.views
        for context, operation, resource_type, name in questions:
            views[context.principal][context.client_host].masks[resource_type][name] >> operation & 1

    def asked() -> None:
        for context, operation, resource_type, name in questions:
            authorizer.authorize(context, operation, resource_type, name)

    for name, work in (("decision_us", warm), ("remembered_us", remembered), ("authorize_us", asked)):
        print(name, _best(work) * 1e6 / len(questions))


def _time_operations(
    authorizer: StandardAuthorizer, caller: RequestContext, names: list[str], expected: list[int]
) -> None:
    def one_by_one() -> list[int]:
        index: Any = authorizer._index
        view = index._view(caller.principal, caller.client_host)
        return [index._decide(view, ResourceType.TOPIC, name) & 3576 for name in names]

    if one_by_one() != expected:
        raise AssertionError("the authorized operations of many topics are not those of each")
    print("operations_single_ms", _best(one_by_one) * 1e3)
    many = authorizer.authorized_operations_many
    print("operations_ms", _best(lambda: many(caller, ResourceType.TOPIC, names)) * 1e3)


def _by_type(authorizer: StandardAuthorizer, questions: list[Question]) -> list[str]:
    times, answers = [], []
    for context, *_ in questions[:200]:
        began = time.thread_time()
        allowed = authorizer.authorize_by_resource_type(context, AclOperation.WRITE, ResourceType.TOPIC)
        times.append(time.thread_time() - began)
        answers.append(str(int(allowed)))
    print("by_type_ms", statistics.median(times) * 1e3)
    return answers


def _time_changes(authorizer: StandardAuthorizer) -> None:
    """Adding and removing one more rule of the principal that has most of them."""
    index: Any = authorizer._index
    counts: dict[str, int] = {}
    for binding in index.rules_by_id.values():
        counts[binding.principal] = counts.get(binding.principal, 0) + 1
    rule = AclBinding(ResourceType.TOPIC, "bench-change", 3, max(counts, key=counts.__getitem__), "*", 3, 3)
    acl_id = Uuid.from_int(1)

    def change() -> None:
        for _ in range(100):
            authorizer.add_acl(acl_id, rule)
            authorizer.remove_acl(acl_id)

    print("change_us", _best(change) * 1e6 / 200)


def _best(work: Callable[[], object]) -> float:
    best, start = float("inf"), time.thread_time()
    while time.thread_time() - start < _AT_LEAST_S:
        began = time.thread_time()
        work()
        best = min(best, time.thread_time() - began)
    return best


def _read_acls(path: Path) -> dict[Uuid, AclBinding]:
    acls = {}
    with path.open() as lines:
        for number, line in enumerate(lines):
            type_, name, pattern, principal, host, operation, permission = line.rstrip("\n").split("\t")
            record = AccessControlEntryRecord(
                resource_type=int(type_),
                resource_name=name,
                pattern_type=int(pattern),
                principal=principal,
                host=host,
                operation=int(operation),
                permission_type=int(permission),
            )
            acls[Uuid.from_int((7 << 64) + number)] = binding_of_record(record)
    return acls


def _question(fields: list[str]) -> Question:
    principal, host, operation, resource_type, name = fields
    return _context(principal, host), AclOperation(int(operation)), ResourceType(int(resource_type)), name


def _context(principal: str, host: str) -> RequestContext:
    kind, _, name = principal.partition(":")
    return RequestContext(api_key=ApiKey.METADATA, api_version=12, principal=Principal(kind, name), client_host=host)


def _resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_MIB


if __name__ == "__main__":
    main(Path(sys.argv[1]))
