package main

import (
	"github.com/alecthomas/kong"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
)

// details are what the help of each command says above the flags.
var details = map[string]string{
	"run": `The lock is renewed until nothing of the command is left. If it cannot be renewed, the command is ended before the
lock is over; if the lock was deleted, as soon as that is noticed. Exit code: the command's, 75 (taken) or 79 (lost).

  redlock run -n nightly-report -- /usr/local/bin/report --all`,

	"try": `Takes a lock for a script, prints its token and exits: the lock stays until "redlock release", or until its TTL is over.

  TOKEN=$(redlock try nightly-backup --ttl 5m) || exit`,

	"extend": `Extends a lock by its token and prints for how long the lock is valid now. A lock that lasts longer already stays as it is.

  redlock extend nightly-backup --token "$TOKEN" --ttl 5m || exit`,

	"release": `Releases a lock by its token. The exit code is 79 if the lock was not held by the token any more.

  redlock release nightly-backup --token "$TOKEN"`,

	"list": `All locks under the key prefix, merged over the nodes. Nothing is changed, and no node is held up: keys are scanned in small pages.
A remark says how many processes wait for a lock, and "kept" that no process listens for its holder.

  redlock list 'backup-*' --sort ttl`,

	"inspect": `A line for each node, and below them each reader or slot, and what the nodes come to. Nothing is changed.

  redlock inspect nightly-backup --watch`,

	"unlock": `Frees a lock by its token, or by force if its holder is gone. The token of one reader or slot ends only that one. ` + survey.Overlap + `

  redlock unlock nightly-backup --force`,

	"doctor": `Looks at each node, names what is not as docs/operations.md asks for, and says how to fix it. Nothing is changed. The exit code
is 0 if all is well, 1 after warnings, 2 after faults.

With --prepare the nodes are stamped: the time of the restart guard begins, and a new set of servers can vote when programs begin. Never stamp
a server that is to replace one under the same address while that one may still grant locks.

  redlock doctor --key-prefix lock: --restart-guard 1m`,

	"web": `A page for browsers that shows the nodes and the locks as they change. It only shows them, unless --allow-unlock is set.
Prometheus reads /metrics there.

  redlock web --key-prefix lock:`,

	"demo": `The nodes are inside this program, or yours: they keep running, and no key is left on them.

Example:
  redlock demo --nodes redis://a,redis://b,redis://c`,

	"bench": `A cycle is an acquire and its release, with nothing between them.

Examples:
  redlock bench --rate 2000 --freeze 1 --json
  redlock bench --nodes redis://a,redis://b,redis://c --callers 1`,

	"completion": `Prints a script that completes commands, flags, their values and the names of locks, for which it asks the nodes for a second at most.

Examples:
  source <(redlock completion bash)
  redlock completion zsh >"${fpath[1]}/_redlock"
  redlock completion fish >~/.config/fish/completions/redlock.fish`,

	"man": `Prints the manual page, with every command and flag.

Example:
  redlock man >/usr/local/share/man/man1/redlock.1`,
}

// notes are what the manual says of commands besides.
var notes = map[string]string{
	"run": `On Linux the lock also covers processes that leave the process group of the command, as su, runuser, sudo, script, setsid and daemons
do. --descendants=wait keeps the lock until they have ended, kill ends them when the command has ended, and ignore lets them run on without
the lock. Other systems do not show such processes.
Work of another daemon cannot be seen on any system: docker exec, ssh and systemd-run. Run redlock inside instead, as in
"ssh host redlock run NAME -- job".`,
}

// addDetails adds them to the commands. kong calls it.
func addDetails(tool *kong.Kong) error {
	for _, c := range tool.Model.Children {
		c.Detail = details[c.Name]
	}
	return nil
}
