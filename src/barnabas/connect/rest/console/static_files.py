"""The few static files of pages, read once. A browser revalidates its copy for each request."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources.abc import Traversable

from starlette.responses import Response

from barnabas.connect.errors import NotFound

__all__ = ["StaticFiles"]

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class StaticFiles:
    def __init__(self, folder: Traversable) -> None:
        found = (file for file in folder.iterdir() if file.name.rpartition(".")[2] in _TYPES)
        self._contents = {file.name: file.read_bytes() for file in found}
        self._tags = {name: f'"{hashlib.sha256(data).hexdigest()[:16]}"' for name, data in self._contents.items()}

    def answer(self, segments: Sequence[str], headers: Mapping[bytes, bytes]) -> Response:
        """Return the file. Raise NotFound."""
        name = "/".join(segments)
        if name not in self._contents:
            raise NotFound("This file does not exist.")
        own = {"ETag": self._tags[name], "Cache-Control": "no-cache"}
        if headers.get(b"if-none-match", b"").decode("latin-1") == self._tags[name]:
            return Response(status_code=304, headers=own)
        return Response(self._contents[name], 200, own, _TYPES[name.rpartition(".")[2]])
