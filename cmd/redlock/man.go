package main

import (
	"fmt"
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
	for _, c := range command.Model.Children {
		p.command(c)
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
	_, err := fmt.Fprint(to.out, p.b.String())
	return err
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

func (p *manPage) command(c *kong.Node) {
	p.macro(".SS " + roff(strings.TrimPrefix(c.Summary(), "redlock ")))
	p.text(c.Help)
	for paragraph := range strings.SplitSeq(c.Detail, "\n") {
		switch {
		case paragraph == "":
			p.macro(".PP")
		case strings.HasPrefix(paragraph, " "): // an example
			p.macro(".br")
			p.text(paragraph)
		default:
			p.text(paragraph)
		}
	}
	for _, arg := range c.Positional {
		p.item(arg.Summary(), arg.Help)
	}
	for _, f := range c.Flags {
		if !f.Hidden {
			p.item(strings.TrimSpace(f.String()), f.Help)
		}
	}
}
