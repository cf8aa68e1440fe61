"""A pipeline: orders of at least an amount, each with the name of its customer."""

from barnabas.connect.plugins.api import ConfigDef, ConfigKey, ConfigType, Range
from barnabas.connect.plugins.pipelines import pipeline


@pipeline(
    version="1.0",
    config_def=ConfigDef([ConfigKey("limit", ConfigType.LONG, 100, "The smallest large amount.", Range(0))]),
)
def large_orders(orders, customers, settings):
    large = orders.where(orders.amount >= settings["limit"])
    return large.join(customers, "customer", "left").select("id", "customer", "name", "amount")
