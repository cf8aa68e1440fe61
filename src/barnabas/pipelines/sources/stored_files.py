"""Files of the local machine or of an object store, without Spark's JVM, which Python data sources can't reach.

A path without a scheme, or with ``file:``, is local. ``s3a:``, ``s3:``, ``gs:``, ``gcs:``, ``hdfs:`` and ``abfss:`` are
opened by Arrow, with the credentials of the environment, or for S3 with options that begin with ``fs.``.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import BinaryIO, NamedTuple, cast
from urllib.parse import unquote, urlsplit

import pyarrow.fs as arrow_fs

from barnabas.pipelines.sources.errors import InvalidOption, SourceUnavailable

__all__ = ["FileStore", "StoredFile"]

_S3_OPTIONS = ("access_key", "secret_key", "session_token", "region", "endpoint_override", "scheme", "anonymous")
_SCHEMES = ("file", "s3a", "s3", "gs", "gcs", "hdfs", "abfss", "abfs")
_S3_SCHEMES = ("s3", "s3a")
_BUFFER_BYTES = 1 << 20


class StoredFile(NamedTuple):
    path: str
    name: str
    size: int


class FileStore:
    """The file system of one path. Reading is sequential; ``open`` returns a file that can also seek."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        """``options`` are those of the file system, without ``fs.``. Raises InvalidOption."""
        self._url, self._options = url, dict(options)
        self._files, self.root = _opened(url, self._options)

    def __reduce__(self) -> tuple[type[FileStore], tuple[str, dict[str, str]]]:
        return FileStore, (self._url, self._options)

    def files_in(self, folder: str) -> list[StoredFile]:
        """Return the files in a folder, sorted by name. Raises SourceUnavailable if it can't be listed."""
        try:
            found = self._files.get_file_info(arrow_fs.FileSelector(folder))
        except (OSError, ValueError) as error:
            raise SourceUnavailable(f"{folder} can't be listed: {error}") from error
        files = [info for info in found if info.type == arrow_fs.FileType.File]
        return sorted(StoredFile(info.path, info.base_name, info.size) for info in files)

    def files_below(self, folder: str) -> list[StoredFile]:
        """Return the files in a folder and those below it, sorted by path, without those in hidden folders."""
        try:
            found = self._files.get_file_info(arrow_fs.FileSelector(folder, recursive=True))
        except (OSError, ValueError) as error:
            raise SourceUnavailable(f"{folder} can't be listed: {error}") from error
        files = [info for info in found if info.type == arrow_fs.FileType.File]
        inside = len(folder) + 1
        return sorted(
            StoredFile(info.path, info.base_name, info.size) for info in files if "/." not in f"/{info.path[inside:]}"
        )

    def is_folder(self, path: str) -> bool:
        return bool(self._info(path).type == arrow_fs.FileType.Directory)

    def file(self, path: str) -> StoredFile | None:
        """Return the file of this path; None if it is a folder or does not exist."""
        info = self._info(path)
        return StoredFile(path, info.base_name, info.size) if info.type == arrow_fs.FileType.File else None

    def open(self, path: str) -> BinaryIO:
        try:
            # Each read of a file in an object store is a request: they are large, and small reads come from a buffer.
            return io.BufferedReader(cast("io.RawIOBase", self._files.open_input_file(path)), _BUFFER_BYTES)
        except OSError as error:
            raise SourceUnavailable(f"{path} can't be read: {error}") from error

    def _info(self, path: str) -> arrow_fs.FileInfo:
        try:
            return self._files.get_file_info(path)
        except (OSError, ValueError) as error:
            raise SourceUnavailable(f"{path} can't be read: {error}") from error


def _opened(url: str, options: dict[str, str]) -> tuple[arrow_fs.FileSystem, str]:
    parts = urlsplit(url)
    scheme = parts.scheme.casefold()
    if options and scheme not in _S3_SCHEMES:
        raise InvalidOption(f"options that begin with fs. are for s3: and s3a:, not for {url}")
    if "://" not in url and not url.startswith("file:"):
        return arrow_fs.LocalFileSystem(), url.rstrip("/") or "/"
    if scheme not in _SCHEMES:
        raise InvalidOption(f"{url} has the scheme {scheme}; files are read from {', '.join(_SCHEMES)}")
    if scheme == "file":
        return arrow_fs.LocalFileSystem(), unquote(parts.path).rstrip("/") or "/"
    try:
        if scheme in _S3_SCHEMES:
            return _s3(options), f"{parts.netloc}{parts.path}".rstrip("/")
        files, root = arrow_fs.FileSystem.from_uri(url)
    except (OSError, ValueError, NotImplementedError) as error:
        raise SourceUnavailable(f"{url} can't be opened: {error}") from error
    return files, str(root).rstrip("/")


def _s3(options: dict[str, str]) -> arrow_fs.FileSystem:
    unknown = sorted(set(options) - set(_S3_OPTIONS))
    if unknown:
        allowed = ", ".join(f"fs.{name}" for name in _S3_OPTIONS)
        raise InvalidOption(f"fs.{unknown[0]} is not an option of S3; its options are {allowed}")
    values: dict[str, object] = dict(options)
    if "anonymous" in values:
        values["anonymous"] = str(values["anonymous"]).casefold() == "true"
    return arrow_fs.S3FileSystem(**values)
