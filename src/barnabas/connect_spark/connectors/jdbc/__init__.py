"""Databases to topics and topics to databases."""
