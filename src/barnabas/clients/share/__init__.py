"""Consumers of share groups (KIP-932): records are acquired for a time, and accepted, released, rejected or renewed."""
