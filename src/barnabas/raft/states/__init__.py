"""One class per state of a replica; ``quorum_state`` holds the table of moves between them."""
