"""The pipeline without Kafka. ``spark`` is a fixture with a SparkSession."""

from shop_plugins.orders import large_orders

from barnabas.connect.plugins.pipeline_testing import Batches, PipelineKit, Rows

ORDERS = "id BIGINT, customer STRING, amount BIGINT"
CUSTOMERS = Rows([("a", "Ann"), ("b", "Bo")], "customer STRING, name STRING")


def test_large_orders_have_their_customer(spark):
    orders = Rows([(1, "a", 150), (2, "b", 20), (3, "c", 900)], ORDERS)
    rows = PipelineKit(large_orders).run(spark, orders=orders, customers=CUSTOMERS)
    assert sorted((row.id, row.name) for row in rows) == [(1, "Ann"), (3, None)]


def test_each_batch_of_orders_becomes_a_batch(spark):
    orders = Batches([[(1, "a", 150)], [(2, "b", 20)], [(3, "b", 21)]], ORDERS)
    batches = PipelineKit(large_orders, {"limit": "21"}).stream(spark, orders=orders, customers=CUSTOMERS)
    assert [[row.id for row in batch] for batch in batches] == [[1], [3]]
