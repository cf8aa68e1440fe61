"""The limits of connections, from settings and quotas."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.metadata.image.client_quotas import ClientQuotasDelta, ClientQuotasImage
from barnabas.network.connection_quotas import UNLIMITED, ConnectionCaps, ListenerCaps
from barnabas.protocol.records.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.server.listeners.connection_caps import IpRatePublisher, connection_caps, per_ip_overrides


class Config:
    """The settings that are read, as in a NodeConfig."""

    def __init__(self, **values: Any) -> None:
        self.max_connections = 100
        self.max_connection_creation_rate = 50
        self.max_connections_per_ip = 10
        self.max_connections_per_ip_overrides = ""
        self.values = {name.replace("__", "."): value for name, value in values.items()}


def test_a_listener_has_its_own_limits_or_none() -> None:
    config: Any = Config(listener__name__external__max__connections=5)
    caps = connection_caps(config, ["EXTERNAL", "INTERNAL"], protected="INTERNAL")
    assert caps == ConnectionCaps(
        connections_max=100,
        creation_rate=50,
        per_ip_max=10,
        per_ip_overrides={},
        by_listener={"EXTERNAL": ListenerCaps(5, UNLIMITED), "INTERNAL": ListenerCaps()},
        protected_listener="INTERNAL",
    )


def test_overrides_may_name_addresses_and_hosts() -> None:
    assert per_ip_overrides("10.0.0.1:5, ::1:7,[2001:DB8::1]:9") == {"10.0.0.1": 5, "::1": 7, "2001:db8::1": 9}
    assert per_ip_overrides("localhost:3").get("127.0.0.1") == 3
    assert per_ip_overrides("") == {}


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:", ":5", "10.0.0.1:-5", "10.0.0.1:x", "no such host:5"])
def test_invalid_overrides_are_named(text: str) -> None:
    with pytest.raises(ValueError, match="max.connections.per.ip.overrides has '"):
        per_ip_overrides(text)


class Rates:
    def __init__(self) -> None:
        self.rates: list[tuple[float | None, dict[str, float]]] = []

    def follow_ip_rates(self, default: float | None, limits: Any) -> None:
        self.rates.append((default, dict(limits)))


class Published:
    def __init__(self, **quotas: float) -> None:
        delta = ClientQuotasDelta(ClientQuotasImage.EMPTY)
        for host, rate in quotas.items():
            name = None if host == "default" else host
            entity = [EntityData(entity_type="ip", entity_name=name)]
            record = ClientQuotaRecord(entity=entity, key="connection_creation_rate", value=rate, remove=False)
            delta.replay(record)
        self.client_quotas = delta.apply()
        self.is_snapshot = True


def test_quotas_of_addresses_apply_immediately_and_those_of_names_when_resolved() -> None:
    async def scenario() -> None:
        rates: Any = Rates()
        image: Any = Published(
            **{"default": 5.0, "10.0.0.1": 2.0, "0:0::1": 3.0, "localhost": 4.0, "no-host.invalid": 1.0}
        )
        IpRatePublisher([rates]).publish(image, image, image)
        assert rates.rates == [(5.0, {"10.0.0.1": 2.0, "::1": 3.0})]
        for _ in range(200):
            if len(rates.rates) > 1:
                break
            await asyncio.sleep(0.05)
        default, limits = rates.rates[-1]
        assert default == 5.0
        assert limits["127.0.0.1"] == 4.0
        assert limits["::1"] == 3.0, "the quota of the address itself applies"

    asyncio.run(scenario())
