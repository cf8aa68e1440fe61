"""``barnabas completion bash|zsh|fish``: print a script with which a shell completes a command line.

The script calls ``barnabas completion --complete WORDS`` at each Tab: so it is small, it needs no update, and it
completes the names of topics and groups, too.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from barnabas.cli.arguments.candidates import Wanted, candidates, given_options
from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import ClusterOptions, UsageError, open_admin
from barnabas.cli.main import COMMANDS

__all__ = ["app", "main"]

app = cluster_app(
    "completion", "Print a script that completes commands, verbs, options, and names of topics and groups in a shell."
)
_main = main_of(app)

_COMPLETE = "--complete"
_FILES = ":files"
"""The answer that lets the shell complete the name of a file."""
_LIMIT_S = 2.0
"""A Tab must not take longer if the cluster does not answer."""
_SCRIPTS = {
    "bash": """\
# barnabas completion bash
_barnabas() {
    local words cword found
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n := words cword
    else
        words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
    fi
    found=$(barnabas completion --complete "${words[@]:1:cword}" 2>/dev/null)
    if [[ $found == :files ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "${words[cword]}")
    else
        mapfile -t COMPREPLY < <(printf '%s' "$found")
        declare -F __ltrim_colon_completions >/dev/null && __ltrim_colon_completions "${words[cword]}"
    fi
}
complete -F _barnabas barnabas
""",
    "zsh": """\
#compdef barnabas
_barnabas() {
    local -a found
    found=("${(@f)$(barnabas completion --complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ $found[1] == :files ]]; then
        _files
    elif [[ -n $found[1] ]]; then
        compadd -a found
    fi
}
if [[ $zsh_eval_context[-1] == loadautoload ]]; then
    _barnabas "$@"
else
    compdef _barnabas barnabas
fi
""",
    "fish": """\
# barnabas completion fish
function __barnabas_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (barnabas completion --complete $words[2..] 2>/dev/null)
    if test "$found" = ":files"
        __fish_complete_path (commandline -ct)
    else
        printf '%s\\n' $found
    end
end
complete -c barnabas -f -a '(__barnabas_complete)'
""",
}


def main(arguments: Sequence[str]) -> int:
    """Print a script, or for a script the words with which a command line can continue."""
    if arguments[:1] == [_COMPLETE]:
        sys.stdout.write("".join(f"{word}\n" for word in _complete(arguments[1:])))
        return 0
    return _main(arguments)


@app.default
def completion(shell: Literal["bash", "zsh", "fish"]) -> int:
    """Print the completion script for a shell. Save it as in the examples, and start a new shell.

    Names of topics and groups are those of the cluster that the command line names, or of localhost:9092.

    For example:

        barnabas completion bash > ~/.local/share/bash-completion/completions/barnabas
        barnabas completion zsh > ~/.zfunc/_barnabas
        barnabas completion fish > ~/.config/fish/completions/barnabas.fish

    Parameters
    ----------
    shell
        The shell.
    """
    sys.stdout.write(_SCRIPTS[shell])
    return 0


def _complete(words: Sequence[str]) -> list[str]:
    found = candidates(words, COMMANDS)
    if found is Wanted.FILES:
        return [_FILES]
    if isinstance(found, Wanted):
        given = given_options(words[:-1], ("bootstrap-server", "bootstrap-controller", "command-config"))
        names = _Cluster(
            bootstrap_server=given.get("bootstrap-server"),
            bootstrap_controller=given.get("bootstrap-controller"),
            command_config=given.get("command-config"),
            timeout=_LIMIT_S,
        ).names(found)
        last = words[-1] if words else ""
        prefix, equals, begun = last.rpartition("=")
        return [f"{prefix}{equals}{name}" for name in names if name.startswith(begun)]
    return found


@dataclass(kw_only=True)
class _Cluster(ClusterOptions):
    """The cluster that a command line names."""

    def names(self, wanted: Wanted) -> list[str]:
        """Return the names of topics or groups; none if the cluster does not answer."""
        from barnabas.clients.admin.errors import AdminError
        from barnabas.clients.errors import ClientError

        async def find() -> list[str]:
            async with asyncio.timeout(_LIMIT_S), await open_admin(self._config()) as admin:
                if wanted is Wanted.TOPICS:
                    return [topic.name async for topic in admin.list_topics(include_internal=True)]
                return [group.group_id for group in (await admin.list_groups()).groups]

        try:
            return sorted(asyncio.run(find()))
        except (AdminError, ClientError, UsageError, TimeoutError, OSError):
            return []
