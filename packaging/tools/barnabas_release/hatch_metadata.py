"""Adds to the package's metadata what ``packaging/release.toml`` decides: project URLs, and README.md with absolute
links.

hatchling loads this file by its path, so it puts the folder of the release tools on the path itself.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

TOOLS = Path(__file__).resolve().parents[1]


class ReleaseMetadata(MetadataHookInterface):
    """The hook of hatchling; ``update`` adds ``readme`` and ``urls`` to the table ``project``."""

    def update(self, metadata: dict[str, object]) -> None:
        if str(TOOLS) not in sys.path:
            sys.path.append(str(TOOLS))
        from barnabas_release.addresses import read_addresses
        from barnabas_release.readme import for_an_index

        root = Path(self.root)
        addresses = read_addresses(root / "packaging" / "release.toml")
        # Metadata hooks run before the version is known to hatchling.
        found = re.search(r'^__version__ = "([^"]+)"', (root / "src/barnabas/__init__.py").read_text(), re.MULTILINE)
        version = found[1] if found else ""
        text = for_an_index((root / "README.md").read_text(encoding="utf-8"), addresses, version)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = addresses.project_urls(version)
