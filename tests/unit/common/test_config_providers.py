"""Values from config providers: which are read, which are refused, and the errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.common.config_providers import ConfigProviders, UnresolvedReference, has_reference

PACKAGE = "org.apache.kafka.common.config.provider."


def providers(**parameters: str) -> ConfigProviders:
    return ConfigProviders(
        {
            "config.providers": "file, env,dir",
            "config.providers.file.class": PACKAGE + "FileConfigProvider",
            "config.providers.env.class": PACKAGE + "EnvVarConfigProvider",
            "config.providers.dir.class": PACKAGE + "DirectoryConfigProvider",
            **{
                f"config.providers.{name.partition('_')[0]}.param.{name.partition('_')[2].replace('_', '.')}": text
                for name, text in parameters.items()
            },
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "some.properties").write_text("user=ann\npassword = p:w \nnested=${env:HOME}\n")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "token").write_text("t0\n")
    (tmp_path / "bytes").write_bytes(b"\xff")
    return tmp_path


def test_references_are_found() -> None:
    assert has_reference("a${file:/x:y}b")
    assert has_reference("${env:X}")
    assert not has_reference("RULE:^CN=(.*)$/$1/ ${plain} $x:y")


def test_each_kind_of_provider_resolves_its_values(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_TEST_WORD", "w")
    made = providers()
    assert made.problems == {}
    properties = folder / "some.properties"
    assert made.resolve(f"<${{file:{properties}:user}}|${{file:{properties}:password}}>") == "<ann|p:w >"
    assert made.resolve(f"${{dir:{folder}/secrets:token}}") == "t0\n"
    assert made.resolve("${env:BARNABAS_TEST_WORD}${env:BARNABAS_TEST_WORD}") == "ww"


def test_provided_values_are_not_resolved_again(folder: Path) -> None:
    assert providers().resolve(f"${{file:{folder}/some.properties:nested}}") == "${env:HOME}"


def test_references_to_unconfigured_providers_are_kept_as_text(folder: Path) -> None:
    made = providers()
    assert made.resolve("a ${vault:x:y}") == "a ${vault:x:y}"
    assert made.unnamed("a ${vault:x:y} ${env:X}") == ["vault"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("${file:FOLDER/some.properties:nobody}", "has no key nobody"),
        ("${file:FOLDER/none:user}", "can't read .*none: No such file"),
        ("${file:user}", "has no path"),
        ("${dir:FOLDER:some}", "can't read .*some: No such file"),
        ("${dir:FOLDER/secrets:../bytes}", "is not the name of a file"),
        ("${dir:FOLDER:bytes}", "is not text in UTF-8"),
        ("${dir:FOLDER:secrets}", "can't read"),
        ("${env:BARNABAS_NOT_SET}", "the environment has no variable BARNABAS_NOT_SET"),
        ("${env:FOLDER:X}", "variables have no path"),
    ],
)
def test_missing_values_are_reported(folder: Path, text: str, complaint: str) -> None:
    with pytest.raises(UnresolvedReference, match=complaint):
        providers().resolve(text.replace("FOLDER", str(folder)))


def test_readable_paths_and_variables_can_be_restricted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_TEST_WORD", "w")
    made = providers(
        file_allowed_paths=f"{folder}/secrets", dir_allowed_paths=f"{folder}/secrets", env_allowlist_pattern="KAFKA_.*"
    )
    assert made.problems == {}
    assert made.resolve(f"${{dir:{folder}/secrets:token}}") == "t0\n"
    (folder / "secrets" / "link").symlink_to(folder / "some.properties")
    for text in (
        f"${{file:{folder}/some.properties:user}}",
        f"${{file:{folder}/secrets/../some.properties:user}}",
        f"${{file:{folder}/secrets/link:user}}",
        f"${{dir:{folder}/secrets:link}}",
        f"${{dir:{folder}/secrets2:token}}",
    ):
        with pytest.raises(UnresolvedReference, match="not below allowed.paths"):
            made.resolve(text)
    with pytest.raises(UnresolvedReference, match="does not match allowlist.pattern"):
        made.resolve("${env:BARNABAS_TEST_WORD}")


def test_every_mistake_about_providers_is_reported() -> None:
    problems = ConfigProviders(
        {
            "config.providers": "a,b,c,d",
            "config.providers.a.class": "com.example.Vault",
            "config.providers.c.class": PACKAGE + "EnvVarConfigProvider",
            "config.providers.c.param.allowlist.pattern": "(",
            "config.providers.c.param.allowed.paths": "/",
            "config.providers.d.class": PACKAGE + "FileConfigProvider",
            "config.providers.d.param.allowed.paths": "relative",
            "config.providers.z.class": PACKAGE + "EnvVarConfigProvider",
        }
    ).problems
    assert problems.keys() == {
        "config.providers.a.class",
        "config.providers.b.class",
        "config.providers.c.param.allowlist.pattern",
        "config.providers.c.param.allowed.paths",
        "config.providers.d.param.allowed.paths",
        "config.providers.z.class",
    }
    assert "FileConfigProvider" in problems["config.providers.a.class"]
