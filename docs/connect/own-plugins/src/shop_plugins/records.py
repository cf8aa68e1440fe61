"""Two transforms, of which one is a pandas function, and a predicate."""

from barnabas.connect.plugins.api import (
    ConfigDef,
    ConfigKey,
    ConfigType,
    NonEmptyString,
    Predicate,
    Range,
    Transform,
    UnsupportedData,
)


def field_of(record, name):
    """Return a field of the value. Raise UnsupportedData for values that don't have it."""
    if name not in getattr(record.value_type, "names", ()):
        raise UnsupportedData(f"the value is {record.value_type.simpleString()} and has no field {name}")
    return record.value.getField(name)


class Pseudonym(Transform):
    """Replaces a field by a hash of it, with a secret so that it can't be guessed."""

    version = "1.0"
    config_def = ConfigDef(
        [
            ConfigKey("field", documentation="The field of the value.", validator=NonEmptyString()),
            ConfigKey("secret", ConfigType.PASSWORD, documentation="What is hashed together with it."),
        ]
    )

    def apply(self, record):
        from pyspark.sql import functions as F

        name, secret = self.settings["field"], self.settings["secret"].value
        text = F.concat(F.lit(secret), field_of(record, name).cast("string"))
        return record.with_value(record.value.withField(name, F.sha2(text, 256)))


class TitleCase(Transform):
    """Capitalizes the words of a text value. Records with digits in their text are bad records."""

    version = "1.0"

    def apply(self, record):
        from pyspark.sql import functions as F

        if record.value_type.simpleString() != "string":
            raise UnsupportedData(f"the value is {record.value_type.simpleString()}, and not text")

        @F.pandas_udf("string")
        def titled(texts):  # One call for thousands of records.
            return texts.str.title()

        wrong = F.when(record.value.rlike("[0-9]"), F.lit("the text has digits"))
        return record.with_value(titled(record.value)).with_error(wrong)


class IsLarge(Predicate):
    """Whether the amount of an order is as large as a limit."""

    version = "1.0"
    config_def = ConfigDef([ConfigKey("limit", ConfigType.LONG, 1000, "The smallest large amount.", Range(0))])

    def test(self, record):
        return field_of(record, "amount") >= self.settings["limit"]
