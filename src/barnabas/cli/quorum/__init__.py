"""``barnabas quorum``: the controller quorum and its voters."""
