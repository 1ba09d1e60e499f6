"""Addresses for operators: whether the gateway can work, and which addresses there are."""

import httpx2
import pytest

from foveal import open_store
from foveal.gateway import health
from foveal.gateway.operations import HEALTH_PATH
from foveal.gateway.routes import is_of_provider
from foveal.testing.provider import ScriptedProvider

from .conftest import Gateways


def test_health_is_told_without_a_token(start: Gateways) -> None:
    """A probe knows no token and asks by the address of its pod: it learns that the store answers, and nothing else."""
    gateway = start(token="t-1")
    reply = httpx2.get(gateway.url + HEALTH_PATH, headers={"host": "10.1.2.3:8080"})
    assert (reply.status_code, reply.json()) == (200, {"status": "ok"})
    assert httpx2.post(gateway.url + HEALTH_PATH, json={}).status_code == 401


def test_a_store_that_does_not_answer_is_told(start: Gateways, tmp_path: object) -> None:
    """A probe gets 503 and the kind of the failure; the words, which may name places, are the operator's, and come once."""
    store = open_store(f"{tmp_path}/secret-place.db")
    gateway = start(on=store, token="t-1")
    store.close()
    for _ in range(2):
        reply = httpx2.get(gateway.url + HEALTH_PATH)
        error = reply.json()["error"]
        assert (reply.status_code, error["type"]) == (503, "StoreUnavailable")
        assert error["message"].startswith("the store does not answer: StoreError")
        assert "secret-place" not in reply.text
    assert len([line for line in gateway.lines if line.startswith("health: ")]) == 1


def test_a_store_that_is_slow_is_told_in_time(start: Gateways, monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe is not left waiting for a database that is away."""
    monkeypatch.setattr(health, "ANSWERS_S", 0.0)
    reply = httpx2.get(start().url + HEALTH_PATH)
    assert (reply.status_code, reply.json()["error"]["message"]) == (503, "the store did not answer within 0 s")


@pytest.mark.parametrize("path", ["/healthz", "/favicon.ico", "/robots.txt", "/status?a=1"])
def test_an_address_that_nobody_has_is_told(start: Gateways, provider: ScriptedProvider, path: str) -> None:
    """A path of no provider, asked for without a key, gets the list of addresses, and no provider hears of it."""
    reply = httpx2.get(start().url + path)
    assert (reply.status_code, reply.json()["error"]["type"]) == (404, "NotFound")
    for address in ("/metrics", HEALTH_PATH, "/foveal/v1/openapi.json", "/v1/messages"):
        assert address in reply.json()["error"]["message"]
    assert provider.requests == []


def test_addresses_of_providers_are_known() -> None:
    """Paths with a version, of conversations, and below /api may be a provider's; any other one is only with a key."""
    paths = (
        "/",
        "/v1/models",
        "/v1beta/files",
        "/upload/v1beta/files",
        "/v1internal:loadCodeAssist",
        "/openai/v1/files",
    )
    deployed = "/openai/deployments/own/chat/completions"
    for path in (*paths, deployed, "/api/tags", "/chat/completions", "/models/gemini-2.5-pro:countTokens"):
        assert is_of_provider(path, {}), path
    assert not is_of_provider("/healthz", {})
    assert is_of_provider("/healthz", {"x-api-key": "k"})
    assert is_of_provider("/files", {}, "key=k")
    assert is_of_provider("/files", {"anthropic-version": "2023-06-01"})
