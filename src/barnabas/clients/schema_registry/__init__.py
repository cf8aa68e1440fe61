"""A client of schema registries that have Confluent's REST API, and the wire format of records that name a schema."""
