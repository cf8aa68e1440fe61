"""Secret fields of a message are not in its ``repr``, and so in no log line or error that shows the message."""

from __future__ import annotations

import pytest

from barnabas.protocol.messages.alter_configs import AlterableConfig as LegacyConfig
from barnabas.protocol.messages.alter_user_scram_credentials import ScramCredentialUpsertion
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from barnabas.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenResponse,
)
from barnabas.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.incremental_alter_configs import AlterableConfig
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.protocol.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.protocol.schema import Struct

SECRET = b"open sesame"
MESSAGES = [
    AlterableConfig(name="ssl.keystore.password", value=SECRET.decode()),
    LegacyConfig(name="ssl.keystore.password", value=SECRET.decode()),
    ConfigRecord(resource_type=4, resource_name="1", name="ssl.keystore.password", value=SECRET.decode()),
    CreateDelegationTokenResponse(token_id="t", hmac=SECRET),
    DescribeDelegationTokenResponse(tokens=[DescribedDelegationToken(token_id="t", hmac=SECRET)]),
    EnvelopeRequest(request_data=SECRET),
    EnvelopeResponse(response_data=SECRET),
    ExpireDelegationTokenRequest(hmac=SECRET),
    RenewDelegationTokenRequest(hmac=SECRET),
    SaslAuthenticateRequest(auth_bytes=SECRET),
    SaslAuthenticateResponse(auth_bytes=SECRET),
    ScramCredentialUpsertion(name="alice", salt=SECRET, salted_password=SECRET),
    UserScramCredentialRecord(name="alice", salt=SECRET, stored_key=SECRET, server_key=SECRET),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__module__.rpartition(".")[2])
def test_a_secret_is_hidden_in_the_printed_message(message: Struct) -> None:
    assert SECRET.decode() not in repr(message)
    assert "[hidden]" in repr(message)


def test_other_fields_are_printed_and_so_is_a_missing_secret() -> None:
    upsertion = ScramCredentialUpsertion(name="alice", mechanism=1, iterations=4096, salt=b"", salted_password=SECRET)
    assert repr(upsertion) == (
        "ScramCredentialUpsertion(name='alice', mechanism=1, iterations=4096, salt=b'', salted_password=[hidden])"
    )
