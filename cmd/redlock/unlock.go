package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/fatih/color"
	"github.com/mattn/go-isatty"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// releaseCmd is the subcommand release.
type releaseCmd struct {
	Name  string `arg:"" help:"The lock's name, without the key prefix."`
	Token string `env:"REDLOCK_TOKEN" placeholder:"TOKEN" group:"Lock" help:"What \"redlock try\" has printed."`
	serverFlags
}

// Run releases a lock.
func (c *releaseCmd) Run(ctx context.Context) error {
	if c.Token == "" {
		return usage(`release needs --token or $REDLOCK_TOKEN: what "redlock try %s" has printed`, c.Name)
	}
	return c.use(func(on *cluster) error { return releaseToken(ctx, on.Locker, c.Name, redlock.Token(c.Token)) }, nil)
}

// releaseToken releases the lock that a token holds. Leftovers of the token on a minority stay.
func releaseToken(ctx context.Context, locker *redlock.Locker, name string, token redlock.Token) error {
	lock, err := locker.Attach(ctx, name, token)
	if err == nil {
		return lock.Unlock(ctx)
	}
	if !errors.Is(err, redlock.ErrNotHeld) {
		return err
	}
	s, inspectErr := locker.Inspect(ctx, name)
	if inspectErr != nil {
		return err
	}
	return &exitError{exitLost, fmt.Errorf("%w by this token. %s", redlock.ErrNotHeld, explain(s, false))}
}

// unlockCmd is the subcommand unlock.
type unlockCmd struct {
	Name  string `arg:"" help:"The lock's name, without the key prefix."`
	Token string `env:"REDLOCK_TOKEN" placeholder:"TOKEN" group:"Lock" help:"Free it if this token holds it."`
	Force bool   `group:"Lock" help:"Free it whoever holds it. Shows that, and asks."`
	Yes   bool   `group:"Lock" help:"Do not ask."`
	serverFlags
}

// Run frees a lock.
func (c *unlockCmd) Run(ctx context.Context, to streams) error {
	switch {
	case c.Token == "" && !c.Force:
		return usage("unlock needs to know whose lock to free. Its holder ends it with --token, which is what \"redlock try\" has printed, "+
			"or $REDLOCK_TOKEN under \"redlock run\" (\"redlock inspect --full %s\" shows it). If the holder is gone, --force frees the lock whoever holds it",
			c.Name)
	case c.Token != "" && c.Force:
		return usage("give --token (or $REDLOCK_TOKEN) or --force, not both: a token frees only the lock that it holds")
	case c.Force && !c.Yes && !isatty.IsTerminal(os.Stdin.Fd()):
		return usage("there is no terminal to ask on: add --yes to remove what \"redlock inspect %s\" shows", c.Name)
	}
	return c.use(func(on *cluster) error {
		if !c.Force {
			return releaseToken(ctx, on.Locker, c.Name, redlock.Token(c.Token))
		}
		return c.force(ctx, to, on)
	}, nil)
}

// force frees the lock whoever holds it: of what it has shown, and nothing else.
func (c *unlockCmd) force(ctx context.Context, to streams, on *cluster) error {
	seen, err := on.Inspect(ctx, c.Name)
	if err != nil {
		return err
	}
	out := paper{w: to.out}
	text := explain(seen, false)
	if t := tallyOf(seen); len(t.tokens)+len(t.marks) == 0 {
		if seen.Verdict == redlock.VerdictForeign {
			return &exitError{exitUsage, fmt.Errorf("%w. It is left alone: %s", nodeerr.ErrForeign, text)}
		}
		out.print([]line{{text: "There is nothing to remove. " + text}})
		return nil
	}
	who := c.presence(ctx, serversOf(on.nodes), seen)
	text += present(seen, who)
	out.print(append(holdings(seen, "nothing"), sharerLines(seen, who, false)...))
	if !c.Yes {
		fmt.Fprintf(to.out, "\n%s\n\n%s\nRemove it? [y/N] ", text, strings.Join(wrap(survey.Overlap, screen), "\n"))
		if yes, err := confirmed(ctx); err != nil || !yes {
			fmt.Fprintln(to.out, "Nothing was removed.")
			return cmp.Or(err, error(&exitError{code: exitTaken}))
		}
	}
	if err := ctx.Err(); err != nil { // such as because nobody could see what is to be removed
		return fmt.Errorf("nothing was removed: %w", err)
	}
	removed, record, err := remove(on, c.KeyPrefix, seen)
	heading := "Nothing was removed:"
	if record != "" {
		fmt.Fprintln(to.err, record)
		heading = "Removed:"
	}
	fmt.Fprintf(to.out, "\n%s\n", heading)
	out.print(holdings(removed, "nothing was there"))
	return err
}

// remove deletes what was seen, and returns what it has deleted, with the line for the log. It fails unless the lock is free.
func remove(on *cluster, prefix string, seen *redlock.LockState) (removed *redlock.LockState, record string, err error) {
	nodes := slices.Clone(seen.Nodes)
	free, taken, data := 0, 0, 0
	failed, record := survey.Remove(on.nodes, prefix, seen)
	for i, err := range failed {
		n := &nodes[i]
		if err != nil {
			*n = redlock.NodeState{Addr: n.Addr, Err: err}
		}
		switch {
		case n.Err == nil || errors.Is(n.Err, nodeerr.ErrAbsent):
			free++
		case errors.Is(n.Err, nodeerr.ErrHeld):
			taken++
		case errors.Is(n.Err, nodeerr.ErrForeign):
			data++
		}
	}
	removed = survey.State(seen.Name, nodes)
	switch {
	case free >= seen.Need:
		return removed, record, nil
	case free+data >= seen.Need:
		return removed, record, fmt.Errorf("%w, on %s: choose another name or --key-prefix", redlock.ErrForeign, display.Counted(data, "node"))
	case taken > 0:
		return removed, record, &exitError{exitTaken, fmt.Errorf("another has taken the lock meanwhile on %s: look at it again",
			display.Counted(taken, "node"))}
	}
	return removed, record, &exitError{exitUnavailable, fmt.Errorf("%w: the lock is gone from %d of %d nodes, %d needed", redlock.ErrNoQuorum, free, len(seen.Nodes), seen.Need)}
}

// holdings are a line for each node, about what it holds or held.
func holdings(s *redlock.LockState, nothing string) []line {
	var rows [][]string
	for _, n := range s.Nodes {
		row := []string{n.Addr, nothing, "", "", ""}
		switch {
		case errors.Is(n.Err, nodeerr.ErrForeign):
			row[1], row[4] = "foreign data", "left alone"
		case errors.Is(n.Err, nodeerr.ErrHeld):
			row[1], row[4] = "another", "has taken it meanwhile: left alone"
		case errors.Is(n.Err, nodeerr.ErrAbsent):
			row[1], row[4] = nothing, "it has ended meanwhile"
		case n.Err != nil:
			row[1], row[4] = "?", clip(why(n.Err), 80)
		case n.Kind != "":
			row[1], row[2], row[3] = heldBy(&n, false), ttlOn(&n), clip(display.Text(exclusive(n.Kind, n.Holders).Metadata), maxShown)
		}
		rows = append(rows, row)
	}
	titles := []column{{"NODE", false}, {"HELD BY", false}, {"TTL LEFT", true}, {"METADATA", false}, {"", false}}
	return table(titles, rows, func(int) *color.Color { return nil })
}

// confirmed waits for an answer on the terminal.
func confirmed(ctx context.Context) (bool, error) {
	answers := make(chan string, 1)
	go func() { // ends with the program, if nobody answers
		answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(answer))
	}()
	select {
	case answer := <-answers:
		return answer == "y" || answer == "yes", nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
