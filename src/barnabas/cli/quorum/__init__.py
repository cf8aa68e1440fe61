"""``barnabas quorum``: the controllers and their voters."""
