"""What a worker remembers of its connectors: figures by interval, and failures, in bounded memory."""
