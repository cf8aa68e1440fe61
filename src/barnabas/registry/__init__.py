"""A schema registry with the REST API and the topic format of Confluent's."""
