"""Tasks as Structured Streaming queries: session, queries, positions, bad records, and the connectors that come along.

Nothing else in Connect imports PySpark, and these modules import it only inside what needs it.
"""
