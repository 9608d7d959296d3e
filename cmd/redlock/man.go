package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// manCmd is the subcommand man.
type manCmd struct{}

// Run prints the page, see man(7).
func (manCmd) Run(command *kong.Context, to streams) error {
	p := &manPage{}
	p.macro(".TH REDLOCK 1")
	p.section("NAME")
	p.text("redlock - " + strings.ToLower(command.Model.Help[:1]) + command.Model.Help[1:])
	p.section("SYNOPSIS")
	p.macro(".B redlock")
	p.text("COMMAND [FLAGS]")
	p.section("COMMANDS")
	common := nodeFlags(command.Model.Children[0])
	for _, c := range command.Model.Children {
		p.command(c, common)
	}
	p.section("NODES")
	p.text("The commands that ask nodes have these flags too. A flag overrides its variable, and that overrides the file of --config.")
	for _, f := range common {
		p.item(term(f), f.Help)
	}
	for _, s := range manSections {
		p.section(s.name)
		p.prose(s.text)
	}
	p.section("FILES")
	for _, f := range manFiles {
		p.item(f.path, f.text)
	}
	p.section("EXIT STATUS")
	for _, e := range exitCodes {
		p.item(e.code, e.means)
	}
	p.section("ENVIRONMENT")
	seen := map[string]bool{}
	for _, c := range command.Model.Children {
		for _, f := range c.Flags {
			if len(f.Envs) == 0 || seen[f.Envs[0]] {
				continue
			}
			seen[f.Envs[0]] = true
			text := "the same as --" + f.Name
			if f.Hidden { // it is only for the environment and for files
				text = f.Help
			}
			p.item(f.Envs[0], text)
		}
	}
	p.section("SEE ALSO")
	p.prose("flock(1), crontab(5), systemd.service(5)\n\nhttps://github.com/quorumlock/quorumlock/blob/main/docs/tool.md")
	_, err := fmt.Fprint(to.out, p.b.String())
	return err
}

// manSections are about the whole tool. A line that begins with a space stays a line.
var manSections = []struct{ name, text string }{
	{"IF THE LOCK IS LOST", `A lock is lost if it was deleted, or if too few nodes answer to renew it. "redlock run" then ends the command before
another can have the lock: TERM, and KILL after --kill-after. With --on-lost=kill there is no TERM. With --on-lost=warn the command goes on,
and may run beside the next holder. The exit code is 79 in each case.

"redlock run" is one process while it waits, and two with the lock. If one is killed, the other ends the command. If both are killed
together, the rest of the command's group may outlive the lock.`},

	{"SIGNALS", `"redlock run" passes INT, TERM, HUP, QUIT and WINCH on to the process group of the command, and USR1 and USR2 to the command
alone. It waits until the command has ended, without a KILL. While it waits for the lock, INT, TERM, HUP and QUIT end it. TSTP stops the
command, which keeps its lock. Other commands end at INT and TERM.`},

	{"EXAMPLES", `The same line in the crontab of each machine runs a job on one of them:

  */15 * * * *  redlock run --config /etc/redlock.json -n -E 0 --at-least 2m backup -- /usr/local/bin/backup

A lock over several commands of a script:

  TOKEN=$(redlock try deploy --ttl 5m) || exit
  ./deploy
  redlock release deploy --token "$TOKEN"

Who holds it, and free it if the holder is gone:

  redlock inspect backup
  redlock unlock backup --force

Are the nodes set up well?

  redlock doctor --key-prefix lock: --restart-guard 1m`},
}

var manFiles = []struct{ path, text string }{
	{"FILE of --config", `A JSON object of flags by their names, such as {"nodes": ["redis://a", "redis://b"], "key-prefix": "lock:"}. It may
have passwords: let only the users of redlock read it.`},
	{"DIR of --metrics-dir", `Has a file redlock_NAME_HASH.prom for each job, and redlock_doctor_HASH.prom for the nodes, for the textfile
collector of node_exporter.`},
	{"/usr/share/doc/redlock/examples/cron", `A crontab, a systemd service with a timer, and configurations of redlock, Prometheus and Alertmanager.`},
	{"redlock-web.service", `A systemd service for "redlock web", with the configuration /etc/redlock.json.`},
}

// nodeFlags returns the flags of a command that say which servers are the nodes.
func nodeFlags(c *kong.Node) []*kong.Flag {
	return slices.DeleteFunc(slices.Clone(c.Flags), func(f *kong.Flag) bool {
		return f.Hidden || f.Group == nil || f.Group.Key != "Nodes"
	})
}

// manPage is a page in the form of man(7).
type manPage struct{ b strings.Builder }

// roff escapes a text.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

func (p *manPage) macro(line string)   { fmt.Fprintln(&p.b, line) }
func (p *manPage) section(name string) { p.macro(".SH " + name) }
func (p *manPage) text(text string)    { p.macro(roff(text)) }

func (p *manPage) item(term, text string) {
	p.macro(".TP\n.B " + roff(term))
	p.text(text)
}

// command writes the purpose of a command, and its flags without the common ones.
func (p *manPage) command(c *kong.Node, common []*kong.Flag) {
	p.macro(".SS " + roff(strings.TrimPrefix(c.Summary(), "redlock ")))
	p.text(c.Help)
	p.prose(c.Detail)
	if note := notes[c.Name]; note != "" {
		p.macro(".PP")
		p.text(note)
	}
	for _, arg := range c.Positional {
		p.item(arg.Summary(), arg.Help)
	}
	for _, f := range c.Flags {
		same := func(other *kong.Flag) bool { return term(f) == term(other) && f.Help == other.Help }
		if !f.Hidden && !slices.ContainsFunc(common, same) {
			p.item(term(f), f.Help)
		}
	}
}

func term(f *kong.Flag) string { return strings.TrimSpace(f.String()) }

// prose writes paragraphs. A line that begins with a space is an example, and stays a line.
func (p *manPage) prose(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case line == "":
			p.macro(".PP")
		case strings.HasPrefix(line, " "):
			p.macro(".br")
			p.text(line)
		default:
			p.text(line)
		}
	}
}
