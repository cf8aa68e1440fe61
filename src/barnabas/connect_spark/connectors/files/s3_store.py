"""An ``ObjectStore`` on S3, with the client of Spark's ``s3a`` file system, so with its endpoint and credentials.

Hadoop's file system has no conditional write, so its client's is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.sessions.java_errors import java_class, java_message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["S3Store"]

_CONFLICTS = (409, 412)
"""The object has changed, or is just being written by a conditional write."""


class S3Store:
    def __init__(self, spark: SparkSession, url: str) -> None:
        """``url`` is ``s3a://bucket/folder``. Raise TerminalError if the bucket can't be used."""
        parts = urlsplit(url)
        self.url = url.rstrip("/")
        self._bucket = parts.netloc
        self._prefix = parts.path.strip("/")
        jvm: Any = spark._jvm
        self._models = jvm.software.amazon.awssdk.services.s3.model
        self._sdk_core = jvm.software.amazon.awssdk.core
        try:
            path = jvm.org.apache.hadoop.fs.Path(f"s3a://{self._bucket}/")
            # Kept, because a file system that nothing refers to closes its client.
            self._file_system = path.getFileSystem(spark._jsc.hadoopConfiguration())
            self._client = self._file_system.getS3AInternals().getAmazonS3Client("commits of files")
        except Exception as error:
            raise TerminalError(f"{url} can't be used: {java_message(error)}") from error

    def require_conditional_writes(self, path: str) -> None:
        """Raise TerminalError for a store that replaces objects whatever the condition of the write is."""
        probe = f"{path}/probe-{uuid4().hex}"
        try:
            accepts = self.replace(probe, "a probe of conditional writes", None)
            is_safe = accepts and not self.replace(probe, "twice", None) and not self.replace(probe, "x", '"other"')
            self.delete(probe)
        except Exception as error:
            raise TerminalError(f"{self.url} can't be written: {java_message(error)}") from error
        if not is_safe:
            raise TerminalError(
                f"{self.url}: this object store ignores the conditions of writes (If-None-Match, If-Match), so two "
                "tasks could overwrite each other's commits. Use one that has them, or TopicToIceberg with a REST or "
                "JDBC catalog."
            )

    def read(self, path: str) -> tuple[str, str] | None:
        request = self._models.GetObjectRequest.builder().bucket(self._bucket).key(self._key(path)).build()
        try:
            found = self._client.getObjectAsBytes(request)
        except Exception as error:
            if _status(error) == 404:
                return None
            raise
        return str(found.asUtf8String()), str(found.response().eTag())

    def replace(self, path: str, text: str, version: str | None) -> bool:
        request = self._models.PutObjectRequest.builder().bucket(self._bucket).key(self._key(path))
        request = request.ifNoneMatch("*") if version is None else request.ifMatch(version)
        try:
            self._client.putObject(request.build(), self._sdk_core.sync.RequestBody.fromString(text))
        except Exception as error:
            if _status(error) in (*_CONFLICTS, *((404,) if version else ())):
                return self._is_ours(path, text)
            raise
        return True

    def files(self, folder: str) -> list[str]:
        return [path for path in self._objects(folder) if not path.endswith("/")]

    def _objects(self, folder: str) -> list[str]:
        """Return the paths below a folder, with the markers of folders, which end with a slash."""
        prefix = self._key(f"{folder}/") if folder else self._key("")
        request = self._models.ListObjectsV2Request.builder().bucket(self._bucket).prefix(prefix).build()
        objects, found = self._client.listObjectsV2Paginator(request).contents().iterator(), []
        while objects.hasNext():
            found.append(str(objects.next().key()))
        start = len(self._key(""))
        return [key[start:] for key in found]

    def copy(self, source: str, target: str) -> bool:
        request = self._models.CopyObjectRequest.builder()
        request = request.sourceBucket(self._bucket).sourceKey(self._key(source))
        request = request.destinationBucket(self._bucket).destinationKey(self._key(target))
        try:
            self._client.copyObject(request.build())
        except Exception as error:
            if _status(error) == 404:
                return False
            raise
        return True

    def delete_folder(self, folder: str) -> None:
        for path in self._objects(folder):
            self.delete(path)

    def delete(self, path: str) -> None:
        request = self._models.DeleteObjectRequest.builder().bucket(self._bucket).key(self._key(path)).build()
        self._client.deleteObject(request)

    def _key(self, path: str) -> str:
        return f"{self._prefix}/{path}" if self._prefix else path

    def _is_ours(self, path: str, text: str) -> bool:
        """Return whether a refused write had succeeded: the client repeats one whose answer it lost."""
        found = self.read(path)
        return found is not None and found[0] == text


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of S3's answer; None for other errors."""
    if not java_class(error).startswith("software.amazon.awssdk.services.s3.model."):
        return None
    return int(getattr(error, "java_exception").statusCode())  # noqa: B009
