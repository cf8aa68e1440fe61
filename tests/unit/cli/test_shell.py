"""``barnabas shell`` on files: paths, patterns, messages and statuses."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from barnabas.cli.shell.arguments import ShellArguments, _parser, parse_arguments
from barnabas.cli.shell.command import Shell, Unreadable, main
from barnabas.cli.shell.metadata_tree import Directory, File, metadata_tree
from barnabas.common.acl import AclBinding
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.acls import AclsImage
from barnabas.metadata.image.metadata_image import MetadataImage, MetadataProvenance
from barnabas.metadata.persistent_map import PersistentMap
from barnabas.metadata.snapshot import image_from_records
from barnabas.protocol.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.protocol.records.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.protocol.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.storage.metadata_point_in_time import Moment


def tree() -> Directory:
    leaf = File(lambda: "text\x1b[31m")
    colors = Directory.of({"red": leaf, "green": leaf})
    return Directory.of({"colors": colors, "empty": Directory.of({}), "note": leaf})


@pytest.fixture
def shell() -> Shell:
    return Shell(tree(), io.StringIO())


def printed(shell: Shell, line: str) -> tuple[bool, str]:
    out = shell._out = io.StringIO()
    return shell.run_line(line), out.getvalue()


def test_directories_are_listed_sorted_and_files_by_their_name(shell: Shell) -> None:
    assert printed(shell, "ls") == (True, "colors\nempty\nnote\n")
    assert printed(shell, "ls colors") == (True, "green\nred\n")
    assert printed(shell, "ls /note empty") == (True, "/note\n\nempty:\n")


def test_printed_text_contains_no_control_characters(shell: Shell) -> None:
    assert printed(shell, "cat note") == (True, "text\\x1b[31m\n")


def test_cd_moves_up_and_down_and_never_above_the_root(shell: Shell) -> None:
    assert printed(shell, "pwd") == (True, "/\n")
    for line, path in [("cd colors", "/colors"), ("cd ./../..", "/"), ("cd /colors/.", "/colors"), ("cd", "/")]:
        assert printed(shell, line)[0]
        assert printed(shell, "pwd") == (True, f"{path}\n")


def test_patterns_match_names_and_a_missing_path_is_reported(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(shell, "ls /c*/*e*") == (True, "/colors/green\n/colors/red\n")
    assert printed(shell, "find c*") == (True, "colors\ncolors/green\ncolors/red\n")
    assert printed(shell, "ls x* note") == (False, "note\n")
    assert capsys.readouterr().err == "ls: x*: no such file or directory.\n"


def test_tree_shows_the_contents_of_files(shell: Shell) -> None:
    assert printed(shell, "tree colors") == (True, "green:\n  text\\x1b[31m\nred:\n  text\\x1b[31m\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("cat nosuch", "cat: nosuch: No such file or directory."),
        ("cat colors", "cat: colors: Is a directory"),
        ("cat note/below", "cat: note/below: No such file or directory."),
        ("cat", "cat: needs a path"),
        ("cd nosuch", "cd: nosuch: no such directory."),
        ("cd note", "cd: note: not a directory."),
        ("cd a b", "cd: too many arguments: b"),
        ("bogus", "bogus: no such command; the commands are cat, cd"),
        ("help bogus", "help: bogus: no such command"),
        ("cat 'note", "can't read the line: No closing quotation"),
    ],
)
def test_mistakes_are_reported(shell: Shell, capsys: pytest.CaptureFixture[str], line: str, message: str) -> None:
    assert printed(shell, line) == (False, "")
    assert capsys.readouterr().err.startswith(message)


def test_history_lists_earlier_commands(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("pwd", "  ls colors", "history"):
        text = printed(shell, line)[1]
    assert text == "    0  pwd\n    1  ls colors\n    2  history\n"
    assert printed(shell, "history 2")[1] == "    2  history\n    3  history 2\n"
    assert printed(shell, "history 100")[1].count("\n") == 5
    assert printed(shell, "history 0") == (True, "")
    assert printed(shell, "history -1") == (False, "")
    assert capsys.readouterr().err == "history: -1 is not a number of commands\n"


def test_paths_are_completed(shell: Shell) -> None:
    assert [shell.complete("c", "c", state) for state in range(3)] == ["cat ", "cd ", None]
    assert [shell.complete("ls colors/g", "g", state) for state in range(2)] == ["green ", None]
    assert [shell.complete("ls e", "e", state) for state in range(2)] == ["empty/", None]
    assert shell.complete("ls nosuch/", "", 0) is None


def test_one_acl_is_found_without_iterating_over_all_acls() -> None:
    class Counting(PersistentMap[Uuid, AclBinding]):
        def __iter__(self):  # type: ignore[no-untyped-def]
            raise AssertionError("the shell iterated over all ACLs")

    acl_id = Uuid.from_int(1 << 100)
    by_id = Counting({acl_id: AclBinding(2, "orders", 3, "User:alice", "*", 3, 3)})
    image = MetadataImage.EMPTY
    parts = {name: getattr(image, name) for name in MetadataImage.__slots__} | {"acls": AclsImage(by_id)}
    shell = Shell(metadata_tree(MetadataImage(**parts), version="1"), io.StringIO())
    for directory in ("/acl/id", "/image/acls/byId"):
        good, text = printed(shell, f"cat {directory}/{acl_id}")
        assert good
        assert text == (
            "StandardAcl[resourceType=TOPIC, resourceName=orders, patternType=LITERAL, principal=User:alice, host=*, "
            "operation=READ, permissionType=ALLOW]\n"
        )
    assert not printed(shell, f"cat /acl/id/{Uuid.ZERO}")[0]
    assert not printed(shell, "cat /acl/id/no-uuid")[0]


def test_the_rules_of_a_principal_are_listed_together() -> None:
    principals = ["User:alice", "User:*", "User:alice", "User:CN=a/b,O=10%"]
    records = [
        AccessControlEntryRecord(
            id=Uuid.from_int((1 << 100) + number),
            resource_type=2,
            resource_name=f"t{number}",
            pattern_type=3,
            principal=principal,
            host="*",
            operation=3,
            permission_type=3,
        )
        for number, principal in enumerate(principals)
    ]
    root = metadata_tree(image_from_records(records, MetadataProvenance()), version="1")
    shell = Shell(root, io.StringIO())
    assert printed(shell, "ls /acl") == (True, "id\nprincipal\n")
    assert printed(shell, "ls /acl/principal") == (True, "User:*\nUser:CN=a%2Fb,O=10%25\nUser:alice\n")
    assert printed(shell, "ls /acl/principal/User:alice") == (True, f"{records[0].id}\n{records[2].id}\n")
    assert printed(shell, f"cat /acl/principal/User:*/{records[1].id}") == printed(
        shell, f"cat /acl/id/{records[1].id}"
    )
    assert "resourceName=t3, " in printed(shell, "tree '/acl/principal/User:CN=a%2Fb,O=10%25'")[1]
    assert not printed(shell, "ls /acl/principal/User:bob")[0]


def test_secrets_are_hidden_unless_requested() -> None:
    records = [
        UserScramCredentialRecord(
            name="alice", mechanism=1, salt=b"salt", stored_key=b"stored", server_key=b"server", iterations=4096
        ),
        ConfigRecord(resource_type=4, resource_name="1", name="ssl.keystore.password", value="secret"),
        ConfigRecord(resource_type=4, resource_name="1", name="listener.name.x.ssl.key.password", value="secret"),
        ConfigRecord(resource_type=4, resource_name="1", name="my.own", value="secret"),
        ConfigRecord(resource_type=4, resource_name="1", name="log.retention.ms", value="1000"),
        ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5"),
    ]
    image = image_from_records(records, MetadataProvenance())
    hiding = Shell(metadata_tree(image, version="1"), io.StringIO())
    showing = Shell(metadata_tree(image, version="1", show_secrets=True), io.StringIO())
    text = printed(hiding, "tree /image")[1]
    assert "secret" not in text
    assert b"salt".hex() not in text
    assert "salt=[hidden], storedKey=[hidden], serverKey=[hidden], iterations=4096" in text
    assert "log.retention.ms:\n      1000" in text
    text = printed(showing, "tree /image")[1]
    assert text.count("secret\n") == 3
    assert f"serverKey={b'server'.hex()}" in text


def test_a_default_quota_is_named_default() -> None:
    entities = [EntityData(entity_type="user", entity_name=None), EntityData(entity_type="client-id", entity_name="c")]
    record = ClientQuotaRecord(entity=entities, key="producer_byte_rate", value=5.0, remove=False)
    shell = Shell(metadata_tree(image_from_records([record], MetadataProvenance()), version="1"), io.StringIO())
    name = "clientId(c)_user(<default>)"
    assert printed(shell, "ls /image/clientQuotas") == (True, name + "\n")
    assert printed(shell, f"cat '/image/clientQuotas/{name}/producer_byte_rate'") == (True, "5.0\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no metadata given"),
        (["--directory", "a", "--snapshot", "b"], "not allowed with"),
        (["a", "--directory", "b"], "a and --directory or --snapshot can't be used together"),
        (["--at-offset", "1", "--at-time", "2", "a"], "not allowed with"),
        (["a", "--at-offset", "-1"], "--at-offset"),
        (["--at-offset", "x", "a"], "argument --at-offset: x is not an offset: offsets are 0, 1, 2, ..."),
        (["--at-time", "noon", "a"], "argument --at-time: noon: write a time as 2026-01-31T12:30:00.000, with +01:00"),
        (["--bootstrap-server", "h:1", "ls"], "--bootstrap-server: brokers don't serve the metadata log; use "),
        (["--bootstrap-controller", "h:1", "--directory", "a"], "can't be used together"),
        (["--bootstrap-controller", "h:1", "--at-offset", "1"], "controllers return only the latest state"),
        (["--command-config", "a", "data"], "needs --bootstrap-controller"),
    ],
)
def test_a_wrong_command_line_ends_with_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_files_without_metadata_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "topic-0").mkdir()
    (tmp_path / "topic-0" / "00000000000000000000.log").write_bytes(b"")
    cases = {
        tmp_path / "nosuch": "no such file or directory",
        tmp_path: "holds no metadata log",
        tmp_path / "topic-0": "holds no metadata log",
        tmp_path / "topic-0" / "00000000000000000000.log": "holds no metadata log",
        tmp_path / "notes.txt": "is not a metadata snapshot",
    }
    for path, message in cases.items():
        assert main([str(path), "ls"]) == 1
        assert message in capsys.readouterr().err
    broken = tmp_path / "00000000000000000005-0000000001.checkpoint"
    broken.write_bytes(b"\0" * 100)
    assert main(["--snapshot", str(broken), "ls"]) == 1
    assert "00000000000000000005-0000000001.checkpoint" in capsys.readouterr().err


def test_commands_are_read_from_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    (directory / "00000000000000000000.log").write_bytes(b"")
    monkeypatch.setattr(sys, "stdin", io.StringIO("# a comment\n\nls /\ncat nosuch\ncd image\npwd\nexit\npwd\n"))
    assert main([str(tmp_path)]) == 1  # One command failed.
    assert capsys.readouterr().out == "acl\nimage\nlocal\n/image\n"


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1790000000123", 1790000000123),
        ("2026-01-31T12:30:00.5", 1769862600500),
        ("2026-01-31T12:30:00.001Z", 1769862600001),
        ("2026-01-31T13:30:00+01:00", 1769862600000),
        ("2026-11-21T11:32:02.179", 1795260722179),
        ("2026-01-31", 1769817600000),
    ],
)
def test_times_are_accepted_in_several_notations(text: str, time_ms: int) -> None:
    assert parse_arguments(["--at-time", text, "data", "ls"]).moment == Moment(time_ms=time_ms)


def test_options_may_precede_or_follow_the_path() -> None:
    expected = ShellArguments("data", Moment(offset=7), True, ["ls", "--at-offset"])
    assert parse_arguments(["--show-secrets", "--at-offset", "7", "data", "ls", "--at-offset"]) == expected
    assert parse_arguments(["--show-secrets", "data", "--at-offset", "7", "ls", "--at-offset"]) == expected
    assert parse_arguments(["-d", "data", "ls"]) == ShellArguments("data", None, False, ["ls"])


def test_bootstrap_controllers_replace_the_path() -> None:
    parsed = parse_arguments(["--bootstrap-controller", "h:1,h:2", "--command-config", "f", "ls", "-x"])
    assert parsed == ShellArguments("", None, False, ["ls", "-x"], "h:1,h:2", "f")


def test_an_invalid_controller_address_is_reported_with_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bootstrap-controller", "localhost:no", "ls"]) == 1
    assert "barnabas shell: --bootstrap-controller: " in capsys.readouterr().err


def test_each_command_shows_the_newest_state_or_fails_if_it_is_unreadable() -> None:
    newest = [Directory.of({"file": File(lambda: "new")})]

    def read() -> Directory:
        if not newest:
            raise Unreadable("unreachable")
        return newest.pop()

    shell = Shell(Directory.of({"file": File(lambda: "old")}), io.StringIO(), read)
    assert printed(shell, "cat file") == (True, "new\n")
    assert printed(shell, "cat file") == (False, "")


def test_the_help_lists_every_option_and_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    options = {option for action in _parser()._actions for option in action.option_strings}
    assert options - {option for option in options if option in text} == {"--bootstrap-server"}
    assert all(name in text for name in ("ls", "cat", "cd", "pwd", "find", "tree", "history", "help"))
    assert max(map(len, text.splitlines())) <= 105
