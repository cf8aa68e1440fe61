"""The results of changes to a resource's configs, for both requests that change them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from barnabas.protocol.messages import alter_configs, incremental_alter_configs

if TYPE_CHECKING:
    from barnabas.common.errors import ApiError
    from barnabas.metadata.image.configs import ConfigResource

__all__ = ["resource_answer"]

A = TypeVar("A", alter_configs.AlterConfigsResourceResponse, incremental_alter_configs.AlterConfigsResourceResponse)


def resource_answer(answer_type: type[A], resource: ConfigResource, error: ApiError) -> A:
    return answer_type(
        error_code=int(error.code),
        error_message=error.message,
        resource_type=resource.type,
        resource_name=resource.name,
    )
