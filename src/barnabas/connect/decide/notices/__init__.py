"""Notices of failures to a webhook: what they say, and how they are signed and repeated. Pure."""
