package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fatih/color"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/redlock"
)

// listCmd is the subcommand list.
type listCmd struct {
	Pattern string `arg:"" optional:"" help:"Which names: * stands for any text, ? for a character."`
	watchFlags
	Sort    string `default:"name" enum:"name,ttl,nodes" group:"Output" help:"By name, ttl (shortest first) or nodes (fewest first)."`
	Holder  string `placeholder:"TEXT" group:"Output" help:"Only locks with this in their token or metadata."`
	Remarks bool   `group:"Output" help:"Only locks with a remark, such as: kept."`
	All     bool   `group:"Output" help:"Show data of other programs too, which is no lock."`
	Limit   int    `default:"100000" group:"Output" help:"How many names are listed at most (default ${default})."`
	Full    bool   `group:"Output" help:"Show whole names and tokens."`
	JSON    bool   `name:"json" group:"Output" help:"Print JSON, with --watch an object per line."`
	Words   bool   `hidden:"" help:"Print names that print, a line each: for completion scripts."`
	guardFlags
	serverFlags
	NodeLimit time.Duration `default:"1m" placeholder:"TIME" group:"Nodes" help:"How long one node may take for all keys (default ${default})."`
}

// Run lists locks.
func (c *listCmd) Run(ctx context.Context, to streams) error {
	err := errors.Join(between("--limit", c.Limit, 1, 10_000_000), between("--node-limit", c.NodeLimit, time.Millisecond, 24*time.Hour))
	if err = errors.Join(err, c.watchFlags.check()); err != nil {
		return &exitError{exitUsage, err}
	}
	servers, err := c.servers()
	if err != nil {
		return err
	}
	if err := c.guardFlags.check(servers); err != nil {
		return &exitError{exitUsage, err}
	}
	return c.run(ctx, to, c.JSON, func(out, errs paper) error { return c.show(ctx, servers, out, errs) })
}

// show lists locks once.
func (c *listCmd) show(ctx context.Context, servers []*node.Server, out, errs paper) error {
	listing, err := survey.List(ctx, servers, survey.Options{
		Prefix: c.KeyPrefix, Pattern: c.Pattern, Limit: c.Limit,
		Timeout: c.Timeout, Connect: c.connect(), NodeLimit: c.NodeLimit,
	})
	if listing == nil {
		return &exitError{exitUsage, err}
	}
	if ctx.Err() != nil {
		return err
	}
	for _, n := range listing.Nodes {
		if n.Err != nil {
			text := fmt.Sprintf("redlock: node %s: %s", n.Addr, why(n.Err))
			if errors.Is(n.Err, survey.ErrTooManyKeys) {
				text += ": give it more time with --node-limit"
			}
			errs.print([]line{{text, bad}})
		}
	}
	if c.Full {
		out.columns = 0
	}
	shown, hidden := c.choose(listing)
	if c.Words {
		for _, l := range shown {
			if isWord(l.Name) {
				fmt.Fprintln(out.w, l.Name)
			}
		}
		return nil
	}
	guarded := c.quarantines(ctx, servers, c.connect())
	if c.JSON {
		return errors.Join(display.JSON(out.w, listOf(listing, guarded, shown, hidden), ""), err)
	}
	answers := func(node int) bool { return grants(listing.Nodes[node].Err) }
	out.print(append(c.lines(listing, shown, hidden), explainQuarantines(guarded, answers)...))
	return err
}

// choose returns the locks to show, sorted, and how many names with data of another program are not among them.
func (c *listCmd) choose(listing *survey.Listing) (shown []survey.Lock, hidden int) {
	for _, l := range listing.Locks {
		switch {
		case !c.holds(l) || c.Remarks && len(remarks(l)) == 0:
		case l.Other && !c.All:
			hidden++
		default:
			shown = append(shown, l)
		}
	}
	switch c.Sort {
	case "ttl":
		slices.SortStableFunc(shown, func(a, b survey.Lock) int { return cmp.Compare(a.TTL, b.TTL) })
	case "nodes":
		slices.SortStableFunc(shown, func(a, b survey.Lock) int { return cmp.Compare(a.On, b.On) })
	}
	return shown, hidden
}

// holds reports whether --holder chooses a lock.
func (c *listCmd) holds(l survey.Lock) bool {
	return c.Holder == "" || slices.ContainsFunc(l.Views, func(v survey.View) bool {
		return strings.Contains(v.Token, c.Holder) || slices.ContainsFunc(v.Sharers, func(h redlock.Holder) bool {
			return strings.Contains(string(h.Token), c.Holder)
		})
	})
}

// faults are what is not as it should be.
func faults(l survey.Lock) (all []string) {
	data := 0
	for _, v := range l.Views {
		if v.Other {
			data++
		}
	}
	switch {
	case l.Other:
		return []string{"data of another program"}
	case l.Verdict == redlock.VerdictUnknown:
		all = append(all, "unknown")
	case l.Verdict == redlock.VerdictNobody:
		all = append(all, "held by nobody")
	}
	if l.Empty {
		all = append(all, "empty value")
	}
	if slices.ContainsFunc(l.Views, func(v survey.View) bool { return !v.Other && v.TTL == redlock.NoLimit }) {
		all = append(all, "no TTL")
	}
	if data > 0 {
		all = append(all, fmt.Sprintf("data of another program on %d", data))
	}
	return all
}

// remarks say who waits for a lock and for whom no process listens, and name the faults.
func remarks(l survey.Lock) (all []string) {
	for _, word := range []string{l.WaitWord(), l.KeptWord()} {
		if word != "" {
			all = append(all, word)
		}
	}
	return append(all, faults(l)...)
}

// lines are what is printed.
func (c *listCmd) lines(listing *survey.Listing, shown []survey.Lock, hidden int) (lines []line) {
	titles := []column{{"NAME", false}, {"HOLDER", false}, {"FENCE", true}, {"TTL", true}, {"NODES", true}, {"REMARK", false}}
	var rows [][]string
	for _, l := range shown {
		rows = append(rows, c.cells(l, listing))
	}
	if len(rows) > 0 {
		lines = append(table(titles, rows, func(row int) *color.Color {
			if len(faults(shown[row])) > 0 {
				return odd
			}
			return nil
		}), line{})
	}
	lines = append(lines, line{text: fmt.Sprintf("%s, %d of %d nodes answered.",
		display.Counted(len(shown), "lock"), listing.Answered(), len(listing.Nodes))})
	if hidden > 0 {
		lines = append(lines, line{text: display.Counted(hidden, "name") + " with data of another program: --all shows them."})
	}
	if listing.Truncated {
		lines = append(lines, line{fmt.Sprintf("There are more names than --limit %d: these are some of them.", c.Limit), odd})
	}
	return lines
}

// cells describes a lock.
func (c *listCmd) cells(l survey.Lock, listing *survey.Listing) []string {
	name, holder, fence, on := display.Text(l.Name), display.Text(l.Metadata), "", l.On
	switch claims := listing.Claims(&l); {
	case l.Verdict == redlock.VerdictUnknown && len(listing.Claimants(&l)) > 0:
		holder = "perhaps " + c.sharers(l, listing.Claimants(&l))
	case l.Verdict == redlock.VerdictUnknown && len(claims) > 0:
		holder = "perhaps " + c.claimants(claims)
		if len(claims) == 1 {
			on = claims[0].On
		}
	case l.Held() && display.Several(l.Kind) && len(l.Holders) > 0:
		holder = c.sharers(l, l.Holders)
	case holder == "" || c.Full:
		holder = c.tokens(l)
	}
	if l.Fence > 0 {
		fence = fmt.Sprint(l.Fence)
	}
	if !c.Full {
		name, holder = clip(name, 50), clip(holder, maxShown)
	}
	nodes := fmt.Sprintf("%d/%d", on, len(listing.Nodes))
	return []string{name, holder, fence, ttlText(l.TTL), nodes, strings.Join(remarks(l), ", ")}
}

// claimants says who may hold a lock: each that a majority may have, or of more than two, how many. With --full it shows all tokens.
func (c *listCmd) claimants(claims []survey.Claim) string {
	var all []string
	for _, claim := range claims {
		metadata := display.Text(token.Metadata(claim.Token))
		switch {
		case display.Several(claim.Kind):
			all = append(all, display.Nouns(claim.Kind))
		case metadata != "" && !c.Full:
			all = append(all, metadata)
		default:
			all = append(all, tokenText(claim.Token, c.Full))
		}
	}
	if c.Full {
		return strings.Join(all, " or ")
	}
	return display.Either(all)
}

// sharers says who shares a lock, or may: how many there are, the one that ends first, and how many more. With --full it shows all tokens.
func (c *listCmd) sharers(l survey.Lock, sharers []survey.Holder) string {
	count := display.Sharers(len(sharers), l.More, l.Kind)
	if c.Full {
		all := make([]string, len(sharers))
		for i, h := range sharers {
			all[i] = tokenText(string(h.Token), true)
		}
		return count + ": " + strings.Join(all, " ")
	}
	first := cmp.Or(display.Text(sharers[0].Metadata), tokenText(string(sharers[0].Token), false))
	if more := len(sharers) - 1; more > 0 {
		return fmt.Sprintf("%s: %s, +%d", count, clip(first, 20), more)
	}
	return count + ": " + first
}

// tokens returns the token of the holder, or without a majority those that nodes hold.
func (c *listCmd) tokens(l survey.Lock) string {
	switch {
	case l.Held() && display.Several(l.Kind):
		return display.Nouns(l.Kind)
	case l.Held():
		return tokenText(l.Token, c.Full)
	}
	var all []string
	for _, v := range l.Views {
		text := tokenText(v.Token, c.Full)
		if display.Several(v.Kind) {
			text = display.Nouns(v.Kind)
		}
		if !v.Other && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, " ")
}
