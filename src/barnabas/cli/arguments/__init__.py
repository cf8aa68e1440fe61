"""Options and arguments that several tools share."""
