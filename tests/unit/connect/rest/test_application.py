"""The API as a whole: routes, forms of answers, roles, time-outs, health, loggers, and access by browsers."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import replace

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from barnabas.connect.rest.application import ListenerKind, Mount, RestApplication, RestRules
from barnabas.connect.rest.authentication import Authenticator, NotAuthenticated
from barnabas.connect.rest.cross_origin import CrossOriginRules
from barnabas.connect.rest.host_names import HostNames
from barnabas.connect.rest.response_headers import parse_header_rules
from barnabas.connect.rest.roles import Role, User
from barnabas.connect.rest.route import Access, Route
from barnabas.connect.rest.route_table import ROUTES
from tests.peers.rest_workers import RestWorkers

CONFIG = {"connector.class": "FileStreamSource", "topic": "t"}
CREATE = msgspec.json.encode({"name": "c", "config": CONFIG})


class Passwords:
    """Accepts every user whose name is a role."""

    async def __call__(self, name: str, password: str, address: str) -> User:
        if name not in ("nobody", "read", "operate", "admin"):
            raise NotAuthenticated("The user name or the password is wrong.")
        return User(name, Role.named(name))


def workers_with_roles(**rules: object) -> RestWorkers:
    authenticator = Authenticator(passwords=Passwords())  # type: ignore[arg-type]
    return RestWorkers(rules=RestRules(authenticator, **rules))  # type: ignore[arg-type]


def as_user(name: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:x".encode()).decode()}


def _path(route: Route) -> str:
    path = route.path.replace("{connector}", "c").replace("{task}", "0").replace("{plugin}", "FileStreamSource")
    return path.replace("{logger}", "barnabas")


@pytest.mark.anyio
async def test_before_the_worker_has_started_every_path_is_404() -> None:
    application = RestApplication(RestRules(), lambda: 0)
    transport = httpx.ASGITransport(application.on_listener(ListenerKind()))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", verify=False) as client:
        for path in ("/", "/health", "/connectors", "/nope"):
            assert (await client.get(path)).status_code == 404


@pytest.mark.anyio
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_every_route_requires_its_role(route: Route) -> None:
    workers = workers_with_roles()
    for name in ("", "nobody", "read", "operate", "admin"):
        headers = as_user(name) if name else {}
        answer = await workers.send("A", route.method, _path(route), headers)
        if route.access.role is None:
            assert answer.status_code == (200 if route.access is Access.OPEN else 400)
        elif not name:
            assert answer.status_code == 401
        else:
            may = User(name, Role.named(name)).may(route.access.role)
            assert (answer.status_code == 403) == (not may), answer.text


@pytest.mark.anyio
async def test_an_unauthenticated_client_learns_nothing_about_routes() -> None:
    workers = workers_with_roles()
    for method, path in (("GET", "/nope"), ("DELETE", "/connectors"), ("GET", "/openapi.json")):
        answer = await workers.send("A", method, path)
        assert answer.status_code == 401
        assert answer.headers.get_list("www-authenticate") == ['Basic realm="connect", charset="UTF-8"']


@pytest.mark.anyio
async def test_a_user_with_an_insufficient_role_receives_the_required_role() -> None:
    answer = await workers_with_roles().send("A", "PUT", "/connectors/c/pause", as_user("read"))
    assert answer.json() == {"error_code": 403, "message": "read has the role read; this needs operate."}


@pytest.mark.anyio
async def test_a_follower_forwards_a_password_and_vouches_for_a_certificate() -> None:
    workers = workers_with_roles()
    assert (await workers.send("B", "POST", "/connectors", as_user("admin"), CREATE)).status_code == 201
    assert "x-barnabas-request-freshness" not in workers.forwarded[-1].headers

    class Certificates:
        def __call__(self, certificate: bytes) -> User:
            return User(certificate.decode(), Role.OPERATE)

    workers = RestWorkers(rules=RestRules(Authenticator(certificates=Certificates())))
    app = workers.applications["B"].on_listener(ListenerKind())

    async def with_certificate(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "extensions": {"tls": {"client_cert_der": b"carol"}}}, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(with_certificate), verify=False) as client:
        restarted = await client.put(workers.urls["B"] + "connectors/c/stop")
        deleted = await client.delete(workers.urls["B"] + "connectors/c")
    assert restarted.json() == {"error_code": 404, "message": "Unknown connector c"}
    assert deleted.status_code == 403
    (forwarded,) = workers.forwarded
    again = await workers.send("A", "PUT", "/connectors/c/stop?forward=true", forwarded.headers)
    assert again.status_code == 403
    other = await workers.send("A", "DELETE", "/connectors/c?forward=true", forwarded.headers)
    assert other.status_code == 403


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/nope", {}, 404),
        ("GET", "/connectors//status", {}, 404),
        ("GET", "/connectors/c/tasks/x/restart", {}, 405),
        ("DELETE", "/connectors", {}, 405),
        ("POST", "/connectors", {"Content-Type": "text/plain"}, 415),
        ("PUT", "/connectors/c/resume", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ("GET", "/connectors", {"Content-Type": "text/plain"}, 415),
        ("GET", "/connectors", {"Accept": "text/html"}, 406),
        ("GET", "/connectors", {"Accept": "application/json;q=0"}, 406),
    ],
)
async def test_the_servers_own_errors_have_no_content_type(
    method: str, path: str, headers: Mapping[str, str], status: int
) -> None:
    answer = await RestWorkers().send("A", method, path, headers)
    assert answer.status_code == status
    assert answer.json()["error_code"] == status
    assert answer.json()["message"].startswith(f"HTTP {status} ")
    assert "content-type" not in answer.headers


@pytest.mark.anyio
@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/*", "text/html, application/json;q=0.1", "application/json"]
)
async def test_json_is_accepted_in_several_notations(accept: str) -> None:
    assert (await RestWorkers().send("A", "GET", "/connectors/", {"Accept": accept})).json() == []


@pytest.mark.anyio
async def test_options_list_the_methods_and_head_is_get() -> None:
    workers = RestWorkers()
    answer = await workers.send("A", "OPTIONS", "/connectors/c/config")
    assert set(answer.headers["allow"].split(",")) == {"HEAD", "GET", "PUT", "PATCH", "OPTIONS"}
    assert (await workers.send("A", "HEAD", "/connectors")).headers["content-length"] == "2"
    assert (await workers.send("A", "HEAD", "/connectors/c/pause")).status_code == 405


@pytest.mark.anyio
@pytest.mark.parametrize("text", ["2147483648", "-2147483649", "1.0", "٣", "0x1", "", "99999999999999999999999"])
async def test_an_invalid_task_number_is_an_unknown_path(text: str) -> None:
    assert (await RestWorkers().send("A", "GET", f"/connectors/c/tasks/{text}/status")).status_code == 404


@given(st.text(max_size=30), st.sampled_from(["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE"]))
def test_any_path_and_body_has_a_regular_answer_of_the_api(text: str, method: str) -> None:
    async def send() -> None:
        workers = RestWorkers()
        path = "/connectors/" + text.encode("utf-8", "replace").decode().replace("#", "").replace("\\", "")
        answer = await workers.send("A", method, path, {}, text.encode("utf-8", "replace"))
        assert answer.status_code < 500 or "error_code" in answer.json()
        assert "see its log" not in answer.text

    try:
        asyncio.run(send())
    except httpx.InvalidURL:
        pass  # The client cannot send this as a request.


@pytest.mark.anyio
@pytest.mark.parametrize(("path", "status"), [("/connectors/%FF", 400), ("/connectors/%2e%2e", 404)])
async def test_unusual_paths_are_names_or_refused(path: str, status: int) -> None:
    assert (await RestWorkers().send("A", "GET", path)).status_code == status


@pytest.mark.anyio
async def test_a_request_that_times_out_reports_the_workers_current_step() -> None:
    workers = RestWorkers(rules=RestRules(request_timeout_s=0.01))
    herder = workers.herders["A"]
    herder.stuck = True
    answer = await workers.send("A", "GET", "/connectors/c")
    assert answer.json() == {"error_code": 500, "message": "Request timed out"}
    herder.stage_text = "The worker is currently reading to the end of the config topic."
    answer = await workers.send("A", "GET", "/connectors/c")
    assert answer.json()["message"] == f"Request timed out. {herder.stage_text}"
    assert (await workers.send("A", "GET", "/connectors")).status_code == 200


@pytest.mark.anyio
async def test_health_is_healthy_starting_or_unhealthy() -> None:
    workers = RestWorkers()
    workers.change("A", health_timeout_s=0.01)
    herder = workers.herders["A"]
    assert (await workers.send("A", "GET", "/health")).json()["status"] == "healthy"
    herder.stuck, herder.ready, herder.stage_text = True, False, "The worker is currently joining its group."
    starting = await workers.send("A", "GET", "/health")
    assert (starting.status_code, starting.json()) == (
        503,
        {
            "status": "starting",
            "message": "Worker is still starting up. The worker is currently joining its group.",
        },
    )
    herder.ready = True
    assert (await workers.send("A", "GET", "/health")).status_code == 500


@pytest.mark.anyio
async def test_an_internal_error_is_a_500_without_details(caplog: pytest.LogCaptureFixture) -> None:
    workers = RestWorkers()

    async def broken(name: str) -> None:
        raise RuntimeError("secret")

    workers.herders["A"].connectors.info = broken  # type: ignore[method-assign]
    answer = await workers.send("A", "GET", "/connectors/c")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "secret" in caplog.text


@pytest.mark.anyio
async def test_topic_tracking_can_be_switched_off() -> None:
    workers = RestWorkers()
    workers.change("A", may_topic_tracking_be_reset=False)
    assert (await workers.send("A", "PUT", "/connectors/c/topics/reset")).status_code == 403
    workers.change("A", is_topic_tracking_enabled=False)
    assert (await workers.send("A", "GET", "/connectors/c/topics")).status_code == 403


@pytest.mark.anyio
async def test_dedicated_admin_listeners_serve_only_admin() -> None:
    workers = RestWorkers(kind=ListenerKind(has_api=False))
    assert (await workers.send("A", "GET", "/admin/loggers/root")).status_code == 200
    for path in ("/", "/connectors", "/openapi.json"):
        assert (await workers.send("A", "GET", path)).status_code == 404
    workers = RestWorkers(kind=ListenerKind(has_admin=False))
    assert (await workers.send("A", "GET", "/admin/loggers/root")).status_code == 404


@pytest.mark.anyio
async def test_pages_can_be_mounted_and_know_their_user() -> None:
    workers = workers_with_roles()

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(scope["user"].name)(scope, receive, send)

    workers.applications["A"].mount(Mount("/console", page))
    assert (await workers.send("A", "GET", "/console/x")).status_code == 401
    assert (await workers.send("A", "GET", "/console/x", as_user("nobody"))).status_code == 403
    assert (await workers.send("A", "GET", "/console", as_user("read"))).text == "read"


# --- browsers ---


@pytest.mark.anyio
@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}],
)
async def test_a_page_of_another_origin_changes_nothing(headers: Mapping[str, str]) -> None:
    workers = RestWorkers()
    assert (await workers.send("A", "POST", "/connectors/c/restart", headers)).status_code == 403
    assert (await workers.send("A", "GET", "/connectors", headers)).status_code == 200
    own = {"Origin": "http://127.0.0.1:29511", "Sec-Fetch-Site": "same-origin"}
    assert (await workers.send("A", "POST", "/connectors/c/restart", own)).status_code == 404


@pytest.mark.anyio
@pytest.mark.parametrize(("origins", "credentials"), [(("http://ours.example",), "true"), (("*",), None)])
async def test_other_origins_are_accepted_if_configured(origins: tuple[str, ...], credentials: str | None) -> None:
    workers = RestWorkers(rules=RestRules(cross_origin=CrossOriginRules.of(origins, ("PUT", "get"))))
    headers = {"Origin": "http://ours.example", "Access-Control-Request-Method": "PUT"}
    answer = await workers.send("A", "OPTIONS", "/connectors/c/config", headers)
    assert answer.headers["access-control-allow-origin"] == "http://ours.example"
    assert answer.headers["access-control-allow-methods"] == "PUT,GET"
    assert answer.headers.get("access-control-allow-credentials") == credentials
    put = await workers.send("A", "PUT", "/connectors/c/pause", {"Origin": "http://ours.example"})
    assert put.status_code == 404
    assert put.headers["access-control-allow-origin"] == "http://ours.example"


@pytest.mark.anyio
async def test_without_the_setting_no_origin_is_allowed() -> None:
    answer = await RestWorkers().send("A", "GET", "/connectors", {"Origin": "http://ours.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.anyio
async def test_a_loopback_listener_refuses_foreign_host_names() -> None:
    kind = ListenerKind(host_names=HostNames(frozenset(("worker1",))))
    workers = RestWorkers(kind=kind)
    for host, status in (
        ("evil.example", 403),
        ("worker1:80", 200),
        ("localhost", 200),
        ("[::1]:5", 200),
        ("127.0.0.1", 200),
    ):
        assert (await workers.send("A", "GET", "/connectors", {"Host": host})).status_code == status, host


@pytest.mark.anyio
async def test_every_answer_has_the_configured_headers() -> None:
    rules = parse_header_rules(
        'set X-Frame-Options: DENY, "add Cache-Control: no-cache, no-store", setDate Expires: 1000'
    )
    answer = await RestWorkers(rules=RestRules(header_rules=rules)).send("A", "GET", "/nope")
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-cache, no-store"
    assert answer.headers["expires"].endswith("GMT")
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.anyio
async def test_an_endless_body_is_not_read_completely() -> None:
    workers = RestWorkers()
    answer = await workers.send("A", "POST", "/connectors", {"Content-Length": str(2**40)}, b"{}")
    assert answer.status_code == 413
    answer = await workers.send("A", "POST", "/connectors", {}, b" " * (16 * 1024 * 1024 + 1))
    assert answer.status_code == 413


# --- loggers ---


@pytest.mark.anyio
async def test_levels_of_loggers_are_changed_by_prefix_and_remembered_with_their_time() -> None:
    workers = RestWorkers()
    for name in ("a.Worker", "a.WorkerConnector", "a.Other"):
        workers.services["A"].loggers.set_level(name, "INFO")
    path = "/admin/loggers/a.Worker"
    changed = await workers.send("A", "PUT", path, {}, b'{"level":"debug"}')
    assert changed.json() == ["a.Worker", "a.WorkerConnector"]
    assert (await workers.send("A", "PUT", path, {}, b'{"level":"DEBUG"}')).json() == []
    assert (await workers.send("A", "GET", path)).json() == {"level": "DEBUG", "last_modified": workers.clock.ms}
    listed = (await workers.send("A", "GET", "/admin/loggers")).json()
    assert list(listed)[-1] == "root"
    assert listed["root"] == {"level": "INFO", "last_modified": None}
    assert (await workers.send("A", "PUT", "/admin/loggers/root", {}, b'{"level":"OFF"}')).json() == sorted(
        ["a.Worker", "a.WorkerConnector", "a.Other", "root"]
    )


@pytest.mark.anyio
async def test_a_level_for_the_cluster_is_set_through_the_herder() -> None:
    workers = RestWorkers()
    answer = await workers.send("A", "PUT", "/admin/loggers/x.y?scope=CLUSTER", {}, b'{"level":"trace"}')
    assert answer.status_code == 204
    for name in "AB":
        assert (await workers.send(name, "GET", "/admin/loggers/x.y")).json()["level"] == "TRACE"


@pytest.mark.anyio
async def test_a_connector_without_info_during_a_listing_is_omitted() -> None:
    workers = RestWorkers()
    await workers.send("A", "POST", "/connectors", {}, CREATE)
    herder = workers.herders["A"]
    herder.connectors.names = lambda: ["c", "gone"]  # type: ignore[method-assign]
    answer = await workers.send("A", "GET", "/connectors?expand=status&expand=info")
    assert set(answer.json()) == {"c"}
    assert set(answer.json()["c"]) == {"status", "info"}


@pytest.mark.anyio
@pytest.mark.parametrize("config", [{"name": "other", **CONFIG}, {"name": "other"}])
async def test_a_name_in_the_configuration_must_equal_that_of_the_url(config: dict[str, str]) -> None:
    answer = await RestWorkers().send("A", "PUT", "/connectors/c/config", {}, msgspec.json.encode(config))
    assert answer.status_code == 400
    assert (
        answer.json()["message"] == "Connector name configuration (other) doesn't match connector name in the URL (c)"
    )


@pytest.mark.anyio
async def test_a_valid_session_is_never_printed() -> None:
    assert "kkk" not in repr(RestWorkers().cluster.session)
    assert "[hidden]" in repr(replace(RestWorkers().cluster.session, key=b"kkk"))
