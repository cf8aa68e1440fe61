"""Queries with the names that they read. ``tests/spark`` compares the names with those of Spark's parser."""

from __future__ import annotations

__all__ = ["QUERIES"]

QUERIES: list[tuple[str, list[str]]] = [
    ("SELECT 1", []),
    ("SELECT * FROM orders", ["orders"]),
    ("SELECT * FROM orders o, customers AS c WHERE o.a IN (c.a, c.b)", ["orders", "customers"]),
    ("SELECT * FROM a JOIN b ON a.x = b.x, c", ["a", "b", "c"]),
    ("SELECT * FROM a LEFT OUTER JOIN b USING (x), c CROSS JOIN d", ["a", "b", "c", "d"]),
    ("SELECT * FROM (a JOIN b ON a.x = b.x)", ["a", "b"]),
    ("SELECT * FROM (SELECT * FROM a) s, b", ["a", "b"]),
    ("SELECT (SELECT max(x) FROM a), y FROM b WHERE z IN (SELECT z FROM c)", ["a", "b", "c"]),
    ("SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x = a.x)", ["a", "b"]),
    ("SELECT extract(YEAR FROM t), trim(BOTH ' ' FROM n), substring(n FROM 2) FROM a", ["a"]),
    ("SELECT a IS DISTINCT FROM b, a IS NOT DISTINCT FROM c FROM t", ["t"]),
    ("SELECT x FROM a LATERAL VIEW explode(xs) e AS x, y", ["a"]),
    ("SELECT x FROM a, LATERAL (SELECT * FROM b), LATERAL explode(a.xs)", ["a", "b"]),
    ("SELECT * FROM range(3), a", ["a"]),
    ("SELECT * FROM explode(array(1)) AS e, (VALUES (1), (2)) v, a", ["a"]),
    ("SELECT * FROM VALUES (1, 2), (3, 4) AS v(a, b)", []),
    ("WITH q AS (SELECT * FROM a) SELECT * FROM q JOIN b ON q.x = b.x", ["a", "b"]),
    ("WITH q (x, y) AS (SELECT 1, 2), r AS (SELECT * FROM q, a) SELECT * FROM r", ["a"]),
    ("WITH Q AS (SELECT 1) SELECT * FROM q", []),
    ("WITH q AS (WITH r AS (SELECT * FROM a) SELECT * FROM r) SELECT * FROM q", ["a"]),
    ("SELECT * FROM a UNION ALL SELECT * FROM b EXCEPT TABLE c", ["a", "b", "c"]),
    ("TABLE a", ["a"]),
    ("FROM a SELECT x, y WHERE x > 1", ["a"]),
    ("FROM a |> WHERE x > 1 |> JOIN b ON a.x = b.x |> SELECT x", ["a", "b"]),
    ("SELECT * FROM `pay.orders` p, `a``b`", ["pay.orders", "a`b"]),
    ("SELECT * FROM parquet.`/data/x`, db.t", ["parquet./data/x", "db.t"]),
    ("SELECT * FROM a TABLESAMPLE (10 PERCENT), b", ["a", "b"]),
    ("SELECT * FROM a PIVOT (sum(x) FOR y IN (1, 2))", ["a"]),
    ("SELECT count(*) OVER w FROM a WINDOW w AS (PARTITION BY x, y ORDER BY z)", ["a"]),
    ("SELECT x, sum(y) FROM a GROUP BY x, z HAVING sum(y) > 1 ORDER BY x, z LIMIT 3", ["a"]),
    ("SELECT * FROM a -- , b\n/* , c */ , d", ["a", "d"]),
    ("SELECT 'FROM b' FROM a", ["a"]),
    ("EXPLAIN SELECT * FROM a", ["a"]),
    ("SELECT window.start, count(*) FROM a GROUP BY window(t, '1 hour'), x", ["a"]),
    ("SELECT transform(xs, x -> x + 1) FROM a", ["a"]),
    ("SELECT /*+ BROADCAST(b) */ * FROM a ANTI JOIN b ON a.x = b.x", ["a", "b"]),
]
