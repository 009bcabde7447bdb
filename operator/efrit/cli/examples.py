"""Examples of each command, for `--help` and docs/cli.md. Tests play every one."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "eval": (
        "efrit eval '(+ 1 2)'",
        "efrit eval --raw --timeout 5m - < check.el",
        "efrit eval -C ~/project '(find-file \"README.md\")' '(buffer-size)'",
        "efrit eval -n team -l tier=quick --queue-timeout 30s '(emacs-version)'",
    ),
    "command": (
        "efrit command 'Fix the warnings of lisp/init.el'",
        "efrit command --max-tokens 200000 --timeout 30m -f task.txt",
        "efrit command -s 6f1c2a 'Blue.'",
    ),
    "chat": ("efrit chat", "efrit chat 'What does this project do?'"),
    "submit": ("efrit submit '(long-work)'", "efrit submit --type command --key nightly 'Update the index'"),
    "wait": ("efrit wait efrit_1795337179_5aa49131", "efrit wait --for 5m first second"),
    "cancel": ("efrit cancel efrit_1795337179_5aa49131",),
    "logs": ("efrit logs efrit_1795337179_5aa49131", "efrit logs --follow efrit_1795337179_5aa49131"),
    "result": ("efrit result --raw efrit_1795337179_5aa49131 > result.txt",),
    "requests": (
        "efrit requests",
        "efrit requests --limit 5 -i default",
        "efrit requests -o json efrit_1795337179_5aa49131",
    ),
    "plan": ("efrit plan run 'Build a calculator' --build 'make test'", "efrit plan watch calculator"),
    "plan run": (
        "efrit plan run 'Build a calculator' --build 'make test'",
        "efrit plan run -f plan.yaml --timeout 12h --detach",
    ),
    "plan list": ("efrit plan list", "efrit plan list -o name"),
    "plan show": ("efrit plan show calculator",),
    "plan watch": ("efrit plan watch calculator",),
    "plan log": ("efrit plan log calculator --last 5",),
    "plan amend": ("efrit plan amend calculator 'It must divide, too.'",),
    "plan suspend": ("efrit plan suspend calculator",),
    "plan resume": ("efrit plan resume calculator",),
    "plan cancel": ("efrit plan cancel calculator",),
    "plan report": ("efrit plan report --html calculator > report.html",),
    "instances": ("efrit instances", "efrit instances -n team -o json"),
    "start": ("efrit start default", "efrit start mine --init", "efrit start -n team build --image emacs:30"),
    "stop": ("efrit stop default", "efrit stop --now default"),
    "restart": ("efrit restart default",),
    "rm": ("efrit rm mine", "efrit rm mine --files"),
    "attach": ("efrit attach default",),
    "stats": ("efrit stats", "efrit stats default -o json"),
    "pools": ("efrit pools -n team", "efrit pools -n team crew"),
    "scale": ("efrit scale -n team crew 5",),
    "rollout": ("efrit rollout history -n team crew",),
    "rollout history": ("efrit rollout history -n team crew", "efrit rollout history -n team crew --revision 2"),
    "rollout undo": ("efrit rollout undo -n team crew --to-revision 2", "efrit rollout undo -n team crew"),
    "claim": ("efrit claim -n team crew --name ada --ttl 8h", "efrit claim -n team crew --for 5m -o name"),
    "claims": ("efrit claims -n team", "efrit claims -n team ada -o json"),
    "release": ("efrit release -n team ada",),
    "top": ("efrit top", "efrit top --delay 500ms", "efrit top --once"),
    "doctor": ("efrit doctor", "efrit doctor -n team"),
    "completion": (
        'eval "$(efrit completion bash)"',
        "efrit completion zsh > ~/.zfunc/_efrit",
        "efrit completion fish > ~/.config/fish/completions/efrit.fish",
    ),
    "version": ("efrit version",),
    "help": ("efrit help", "efrit help plan run"),
}


def epilog(program: str, command: str) -> str:
    """Return the examples of `command` as the end of its help."""
    lines = (line.replace("efrit ", f"{program} ", 1) for line in EXAMPLES.get(command, ()))
    return "examples:\n" + "\n".join(f"  {line}" for line in lines)
