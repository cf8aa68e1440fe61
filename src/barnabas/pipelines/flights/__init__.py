"""Departure delays per carrier and scheduled hour, kept current while 336,776 real flights stream through a topic.

``schema`` and ``transforms`` are pure; ``job`` reads and writes; the other modules are the run around it: the data set,
the producer, the node, what a run leaves behind, and what a person sees.
"""
