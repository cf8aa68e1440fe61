"""Converts IP addresses between bytes and the text that Kafka shows: Java's form, which never has ``::``."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address

__all__ = ["host_address_bytes", "host_address_text"]

_IPV4_IN_IPV6 = bytes(10) + b"\xff\xff"


def host_address_text(address: bytes) -> str:
    """Return the text of a 4- or 16-byte address; an IPv4 address inside an IPv6 one is IPv4. Raises ValueError."""
    if len(address) == 16 and address[:12] == _IPV4_IN_IPV6:
        address = address[12:]
    if len(address) == 4:
        return ".".join(map(str, address))
    if len(address) != 16:
        raise ValueError(f"an IP address has 4 or 16 bytes, not {len(address)}")
    return ":".join(f"{address[index] << 8 | address[index + 1]:x}" for index in range(0, 16, 2))


def host_address_bytes(text: str) -> bytes:
    """Return the bytes of an address in any usual form; a zone (``%eth0``) is omitted. Raises ValueError."""
    address = ip_address(text.partition("%")[0])
    if not isinstance(address, IPv4Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.packed
