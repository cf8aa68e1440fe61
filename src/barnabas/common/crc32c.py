"""CRC-32C, by the processor's own instruction where it has one.

The library's package imports its command line and its version number with it, and thereby the e-mail and zip modules of
the standard library: 50 ms and 7 MiB in every process. Only its extension module is needed, which takes one
millisecond, so this module loads the extension directly.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING

__all__ = ["crc32c"]

if TYPE_CHECKING:
    from crc32c import crc32c
else:

    def _load():
        package = PathFinder.find_spec("crc32c")
        spec = package and PathFinder.find_spec("_crc32c", package.submodule_search_locations)
        if not spec or not spec.loader:
            import crc32c  # Another layout of the package: a slow import is better than none.

            return crc32c.crc32c
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.crc32c

    crc32c = _load()
