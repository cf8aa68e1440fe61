"""A converter for orders that are lines of text, such as 17;4.50."""

from barnabas.connect.plugins.api import CheckedColumn, ConfigDef, ConfigKey, Converter, UnsupportedData, ValidString


class LineConverter(Converter):
    version = "1.0"
    config_def = ConfigDef(
        [ConfigKey("separator", default=";", documentation="Between the fields.", validator=ValidString((";", "|")))]
    )

    def data_type(self):
        return "struct<id: bigint, amount: decimal(10,2)>"

    def decode(self, data):
        from pyspark.sql import functions as F

        parts = F.split(F.decode(data, "UTF-8"), f"[{self.settings['separator']}]")
        number, amount = F.get(parts, F.lit(0)).try_cast("bigint"), F.get(parts, F.lit(1)).try_cast("decimal(10,2)")
        good = (F.size(parts) == 2) & number.isNotNull() & amount.isNotNull()
        order = F.when(good, F.struct(number.alias("id"), amount.alias("amount")))
        return CheckedColumn(order, F.when(data.isNotNull() & ~good, F.lit("not an order, such as 17;4.50")))

    def encode(self, data, data_type):
        from pyspark.sql import functions as F

        if getattr(data_type, "names", []) != ["id", "amount"]:
            raise UnsupportedData(f"an order has id and amount, and this is {data_type.simpleString()}")
        text = F.concat_ws(self.settings["separator"], data["id"].cast("string"), data["amount"].cast("string"))
        return F.when(data.isNotNull(), text).cast("binary")
