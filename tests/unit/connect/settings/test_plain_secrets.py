from __future__ import annotations

import pytest

from barnabas.connect.settings.plain_secrets import plain_secrets


@pytest.mark.parametrize(
    "name",
    [
        "catalog.jdbc.password",
        "catalog.token",
        "catalog.credential",
        "catalog.s3.access-key-id",
        "catalog.s3.secret-access-key",
        "fs.s3a.access.key",
        "fs.s3a.bucket.lake.secret.key",
        "aws.session.token",
        "barnabas.connect.spark.conf.spark.hadoop.fs.s3a.secret.key",
    ],
)
def test_a_secret_in_plain_text_is_found_and_a_reference_is_not(name: str) -> None:
    assert plain_secrets({name: "AKIA"}) == [name]
    assert plain_secrets({name: "${file:/etc/secrets.properties:key}"}) == []
    assert plain_secrets({name: ""}) == []
    assert plain_secrets({name: None}) == []


@pytest.mark.parametrize(
    "name", ["connection.password", "catalog.warehouse", "catalog.token-refresh-enabled", "fs.s3a.endpoint", "key"]
)
def test_other_settings_are_not_secrets_of_a_store(name: str) -> None:
    assert plain_secrets({name: "text"}) == []
