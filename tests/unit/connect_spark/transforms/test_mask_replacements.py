from __future__ import annotations

import pytest

from barnabas.connect_spark.converters.connect_schema import DECIMAL, SCALE, ConnectSchema, SchemaType
from barnabas.connect_spark.transforms.mask_field import _fits

PRICE = ConnectSchema(SchemaType.BYTES, name=DECIMAL, version=1, parameters=((SCALE, "2"),))


@pytest.mark.parametrize(
    ("replacement", "schema", "fits"),
    [
        ("127", ConnectSchema(SchemaType.INT8), True),
        ("128", ConnectSchema(SchemaType.INT8), False),
        ("-129", ConnectSchema(SchemaType.INT8), False),
        ("+1", ConnectSchema(SchemaType.INT64), True),
        (str(2**63), ConnectSchema(SchemaType.INT64), False),
        ("1_0", ConnectSchema(SchemaType.INT32), False),
        (" 1", ConnectSchema(SchemaType.INT32), False),
        ("1.0", ConnectSchema(SchemaType.INT32), False),
        ("1.5e3", ConnectSchema(SchemaType.FLOAT64), True),
        (".5", ConnectSchema(SchemaType.FLOAT32), True),
        ("x", ConnectSchema(SchemaType.FLOAT64), False),
        ("1.5", PRICE, True),
        ("1.567", PRICE, False),
        ("1.500", PRICE, True),
        ("1" * 36, PRICE, True),
        ("1" * 37, PRICE, False),
        ("many", PRICE, False),
    ],
)
def test_a_replacement_fits_the_type_of_the_field_or_is_refused(
    replacement: str, schema: ConnectSchema, fits: bool
) -> None:
    assert _fits(replacement, schema) is fits
