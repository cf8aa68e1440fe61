"""Builds and checks a release. ``python -m barnabas_release --help``, with ``packaging/tools`` in PYTHONPATH.

It uses the standard library only: the build of the package itself loads two of its modules (``hatch_metadata.py``).
"""
