"""The latest dead letters of a connector, which only our workers show."""

from __future__ import annotations

from barnabas.connect.decide.tasks.dead_letter_records import LETTERS_MAX
from barnabas.connect.entities import DeadLetters
from barnabas.connect.errors import NotFound
from barnabas.connect.rest.api_request import ApiRequest, Reply, Services
from barnabas.connect.rest.query_parameters import number_to
from barnabas.connect.rest.route import CONNECTOR, Access, Parameter, Route

__all__ = ["ROUTES", "get_dead_letters"]

_COUNT = 20


async def get_dead_letters(services: Services, request: ApiRequest) -> Reply:
    count = number_to(LETTERS_MAX, "count", request.last("count"), _COUNT)
    config = await services.forwarder.settled(lambda: services.herder.connectors.config(request.connector))
    if services.dead_letters is None:
        raise NotFound("This worker reads no dead letters.")
    return Reply(200, await services.dead_letters.read(request.connector, config, count))


ROUTES = (
    Route(
        "GET",
        f"{CONNECTOR}/dead-letters",
        Access.OPERATE,
        get_dead_letters,
        "The latest dead letters of a connector; Kafka's workers lack this path",
        {200: DeadLetters},
        query=(Parameter("count", f"Maximum number of dead letters, 1 to {LETTERS_MAX}; the default is {_COUNT}."),),
    ),
)
