"""NEXMark: the events of an auction site, to measure and to try pipelines."""
