"""Object stores in a worker's session: ``s3a://``, with credentials that no configuration contains.

Endpoint, region and the like are Hadoop's own settings: ``barnabas.connect.spark.conf.spark.hadoop.fs.s3a.*``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from barnabas.connect_spark.sessions.spark_packages import S3, require_package

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
    if is_object_store(url):
        require_package(spark, S3, f"{setting}: {url}")
