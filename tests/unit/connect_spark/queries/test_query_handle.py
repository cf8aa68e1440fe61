from __future__ import annotations

import logging

import pytest

from barnabas.connect_spark.queries import query_handle
from barnabas.connect_spark.queries.batch_gate import QueryEnds


@pytest.fixture
def logger() -> logging.Logger:
    logger = logging.Logger("py4j of a test")
    logger.addFilter(query_handle._is_error)
    return logger


@pytest.mark.parametrize(("error", "is_logged"), [(QueryEnds(), False), (ValueError("bad"), True)])
def test_a_query_that_is_being_stopped_is_not_logged_as_an_error(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture, error: Exception, is_logged: bool
) -> None:
    logger.addHandler(caplog.handler)
    try:
        raise error
    except type(error):
        logger.exception("There was an exception while executing the Python Proxy on the Python Side.")
    logger.error("without an exception")
    assert len(caplog.messages) == 1 + is_logged
