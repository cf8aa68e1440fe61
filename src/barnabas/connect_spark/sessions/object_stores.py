"""Object stores in a worker's session: ``s3a://``, with credentials that no configuration contains.

Endpoint, region and the like are Hadoop's own settings: ``barnabas.connect.spark.conf.spark.hadoop.fs.s3a.*``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.sessions.session_kind import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["OBJECT_STORE_SCHEMES", "is_object_store", "require_s3", "s3_conf"]

OBJECT_STORE_SCHEMES = ("s3a", "s3")

_SDK = "software.amazon.awssdk.auth.credentials"
_PROVIDERS = {
    "default": f"{_SDK}.DefaultCredentialsProvider",
    "environment": f"{_SDK}.EnvironmentVariableCredentialsProvider",
    "profile": f"{_SDK}.ProfileCredentialsProvider",
    "web-identity": f"{_SDK}.WebIdentityTokenFileCredentialsProvider",
    "instance": "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider",
    "anonymous": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
    "settings": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
}
_CLIENT = "org.apache.hadoop.fs.s3a.S3AFileSystem"


def s3_conf(credentials: str) -> dict[str, str]:
    """Return Spark's settings for object stores. ``s3:`` URLs, which catalogs may return, use the same client."""
    return {
        "spark.hadoop.fs.s3a.aws.credentials.provider": _PROVIDERS[credentials],
        "spark.hadoop.fs.s3.impl": _CLIENT,
        # Parts of a large file are uploaded from memory: the default needs a folder that every executor can write.
        "spark.hadoop.fs.s3a.fast.upload.buffer": "bytebuffer",
    }


def is_object_store(url: str) -> bool:
    return urlsplit(url).scheme in OBJECT_STORE_SCHEMES


def require_s3(spark: SparkSession, url: str, setting: str) -> None:
    """Raise TerminalError for an s3a URL in a session without the client of object stores."""
    if not is_object_store(url):
        return
    if is_remote(spark):
        raise TerminalError(
            f"{setting}: {url} is in an object store, which a task commits to with the client of the worker's own "
            "Spark, and this one is a Spark Connect server (sc://). Use a worker with "
            "barnabas.connect.spark.master=local[*] or spark://host:port"
        )
    from py4j.java_gateway import JavaPackage

    jvm: Any = spark._jvm
    if isinstance(jvm.org.apache.hadoop.fs.s3a.S3AFileSystem, JavaPackage):
        raise TerminalError(
            f"{setting}: {url} needs the client of object stores, and this worker's session was started without it: "
            "set barnabas.connect.spark.s3=true in the worker's settings, and restart the worker"
        )
