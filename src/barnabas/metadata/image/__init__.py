"""One module per part of the image: an ``XImage`` (a value) and an ``XDelta`` (what changes it)."""
