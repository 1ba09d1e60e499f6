"""Commands on a store that has keys and tenants."""

from base64 import b64encode
from pathlib import Path
from secrets import token_bytes

import pytest

pytest.importorskip("cryptography", reason="the extra `keys` is not installed")

import foveal
from foveal.cli import main


def test_commands_take_keys_and_tenant_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With them a session is read and moved; without them it is not; another tenant has nothing."""
    (tmp_path / "keys").write_text(b64encode(token_bytes(32)).decode())
    place, moved = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    store = foveal.open_store(place, keys=tmp_path / "keys", tenant="acme")
    with store, foveal.Session(store, "s", model="gpt-5") as session:
        session.append(foveal.user("a CANARY"))
        session.prompt()
    assert main(["show", "s", "--store", place]) == 2
    monkeypatch.setenv("FOVEAL_TENANT", "acme")
    assert main(["show", "s", "--store", place]) == 2
    capsys.readouterr()
    monkeypatch.setenv("FOVEAL_KEYS", str(tmp_path / "keys"))
    assert main(["store", "migrate", place, moved]) == 0
    assert main(["show", "s", "--store", moved]) == 0
    assert "CANARY" in capsys.readouterr().out
    assert b"CANARY" not in Path(moved).read_bytes()
    monkeypatch.setenv("FOVEAL_TENANT", "globex")
    assert main(["sessions", "--store", moved]) == 0
    assert "no sessions yet" in capsys.readouterr().out
