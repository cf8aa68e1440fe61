"""SQL over topics and tables: what the connector SqlPipeline and the shell ``barnabas sql`` share."""
