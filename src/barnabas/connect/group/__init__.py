"""Who is in a group of workers, and who runs what: Connect's protocol on top of Kafka's classic groups."""
