"""``barnabas quorum``: show and change the controller quorum and its voters."""
