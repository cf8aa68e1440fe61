"""What a node keeps on disk, laid out as Kafka lays it out: partition logs, the metadata log, their small files."""
