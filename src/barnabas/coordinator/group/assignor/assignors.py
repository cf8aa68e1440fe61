from __future__ import annotations
from collections import deque
class _Tmp:
    name = "uniform"
    def assign(self, spec, topics):
        members = {**spec.members}
        for k, v in spec.updates.items():
            members.pop(k, None)
            if v is not None: members[k] = v
        out = {m: {} for m in members}
        ids = sorted({t for m in members.values() for t in m.topic_ids})
        for t in ids:
            subs = sorted(m for m, s in members.items() if t in s.topic_ids)
            for p in range(topics.partition_count(t)):
                m = subs[p % len(subs)]
                out[m].setdefault(t, set()).add(p)
        return {m: {t: frozenset(p) for t, p in a.items()} for m, a in out.items()}
def assignor_named(name: str) -> _Tmp:
    return _Tmp()
