"""Departure delays per carrier and scheduled hour, kept current while 336,776 real flights stream through a topic.

``schema`` and ``transforms`` are pure; ``job`` reads and writes. The other modules run them: the data set, the
producer, the node, the files that a run leaves behind, and the output on the terminal.
"""
