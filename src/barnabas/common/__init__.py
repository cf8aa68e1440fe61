"""Words that every package uses; values only."""
