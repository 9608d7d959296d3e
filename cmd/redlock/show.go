package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fatih/color"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	screen    = 80 // columns
	maxAddr   = 32 // columns of an address
	indent    = "   "
	yesMark   = "●"
	noMark    = "○"
	emptyMark = "·" // not asked
)

// show prints what happens. Its lines fit on a screen.
type show struct {
	w    io.Writer
	need int  // how many nodes make a majority
	addr int  // columns of the addresses
	bare bool // nothing was printed since the step began

	good, bad, odd, dim, loud *color.Color
}

// newShow makes a show that prints to w, in colours where that is a terminal which
// wants them and plain is not set.
func newShow(w io.Writer, plain bool) *show {
	s := &show{
		w:    w,
		good: color.New(color.FgGreen), bad: color.New(color.FgRed), odd: color.New(color.FgYellow),
		dim: color.New(color.Faint), loud: color.New(color.Bold),
	}
	if plain {
		for _, c := range []*color.Color{s.good, s.bad, s.odd, s.dim, s.loud} {
			c.DisableColor()
		}
	}
	return s
}

func (s *show) line(format string, args ...any) {
	fmt.Fprintln(s.w, strings.TrimRight(indent+fmt.Sprintf(format, args...), " "))
	s.bare = false
}

func (s *show) title(nodes []*pool.Node, need int, about, name string) {
	s.need = need
	for _, node := range nodes {
		s.addr = min(max(s.addr, utf8.RuneCountInString(node.Addr())), maxAddr)
	}
	fmt.Fprintf(s.w, "A lock over %d independent Redis nodes: whoever has %d of them has the lock.\n", len(nodes), need)
	fmt.Fprintln(s.w, s.dim.Sprintf("Nodes: %s. Lock: %s", about, name))
}

func (s *show) step(number int, title string) {
	fmt.Fprintf(s.w, "\n%s\n\n", s.loud.Sprintf("%d  %s", number, title))
	s.bare = true
}

func (s *show) end(steps int, took time.Duration) {
	fmt.Fprintf(s.w, "\n%s All %d steps went as they should, in %s. The lock is free again.\n",
		s.good.Sprint("✔"), steps, duration(took))
}

// node tells that something was done to a node.
func (s *show) node(addr, what string) { s.line("%s  %s", s.address(addr), s.odd.Sprint(what)) }

// votes prints what each node answered, a line each.
func (s *show) votes(seen *round) {
	if !s.bare {
		fmt.Fprintln(s.w)
	}
	for _, vote := range seen.votes {
		if vote == nil {
			continue
		}
		line := fmt.Sprintf("%s  %s  %s", s.address(vote.Addr),
			s.answer(vote.Answer), s.dim.Sprintf("%9s", duration(vote.Took)))
		if vote.Err != nil {
			left := screen - len(indent) - s.addr - 2 - answerWidth - 2 - 9 - 2
			line += "  " + clip(reason(vote.Err), left)
		}
		s.line("%s", line)
	}
}

// acquired prints the outcome of a TryLock.
func (s *show) acquired(who string, seen *round) {
	verdict := seen.verdict
	if verdict.Err != nil {
		s.outcome(seen, s.bad, "%s is refused after %s: %s", who, duration(verdict.Took), s.why(seen))
		return
	}
	s.outcome(seen, s.good, "%s has the lock after %s, valid for %s", who, duration(verdict.Took), duration(verdict.Validity))
}

// waiting prints one refused attempt of a Lock.
func (s *show) waiting(who string, seen *round, since time.Duration) {
	s.outcome(seen, s.odd, "%9s  %s waits: %s", duration(since), who, s.why(seen))
}

// waited prints the attempt of a Lock that was granted.
func (s *show) waited(who string, seen *round, since time.Duration) {
	s.outcome(seen, s.good, "%9s  %s has the lock, valid for %s", duration(since), who, duration(seen.verdict.Validity))
}

// unlocked prints the outcome of an Unlock.
func (s *show) unlocked(who string, seen *round) {
	verdict := seen.verdict
	if verdict.Err != nil {
		s.outcome(seen, s.bad, "%s's release is refused after %s: %s", who, duration(verdict.Took), s.why(seen))
		return
	}
	s.outcome(seen, s.good, "%s has given it back after %s", who, duration(verdict.Took))
}

// extended prints an Extend that was granted.
func (s *show) extended(who string, seen *round) {
	s.outcome(seen, s.good, "%s's lock is untouched: extended, and valid for %s", who, duration(seen.verdict.Validity))
}

// expired prints how a lock ended by itself.
func (s *show) expired(who string, why error, after time.Duration) {
	s.line("%s", s.odd.Sprintf("%s is busy for %s, and then: %v", who, duration(after), why))
}

// outcome prints a mark for each node and a sentence.
func (s *show) outcome(seen *round, c *color.Color, format string, args ...any) {
	var marks strings.Builder
	for _, vote := range seen.votes {
		switch {
		case vote == nil:
			marks.WriteString(s.dim.Sprint(emptyMark))
		case vote.Answer == pool.Yes:
			marks.WriteString(s.good.Sprint(yesMark))
		default:
			marks.WriteString(s.bad.Sprint(noMark))
		}
	}
	s.line("%s  %s", marks.String(), c.Sprintf(format, args...))
}

func (s *show) address(addr string) string {
	return fmt.Sprintf("%-*s", s.addr, clip(addr, s.addr))
}

const answerWidth = len("refused")

func (s *show) answer(answer pool.Answer) string {
	c := s.odd
	switch answer {
	case pool.Yes:
		c = s.good
	case pool.No:
		c = s.bad
	}
	return c.Sprintf("%-*s", answerWidth, answer)
}

// why says in a few words why a majority did not do what it was asked to.
func (s *show) why(seen *round) string {
	err := seen.verdict.Err
	var refusal *redlock.QuorumError
	if errors.As(err, &refusal) {
		err = refusal.Reason
	}
	if errors.Is(err, redlock.ErrNoQuorum) {
		return fmt.Sprintf("%v (%d yes, %d needed)", err, len(seen.with(pool.Yes)), s.need)
	}
	return err.Error()
}

// reason says why a node did not say yes. A network error is cut down to what went
// wrong: the address is in the line already.
func reason(err error) string {
	text := err.Error()
	var network *net.OpError
	if !errors.As(err, &network) {
		return text
	}
	inner := network.Err
	var call *os.SyscallError
	if errors.As(inner, &call) {
		inner = call.Err
	}
	return strings.Replace(text, network.Error(), inner.Error(), 1)
}

// duration renders a time with three or four digits.
func duration(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.2f ms", ms)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", ms)
	default:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
}

// clip shortens a text to so many columns.
func clip(text string, columns int) string {
	if utf8.RuneCountInString(text) <= columns {
		return text
	}
	return string([]rune(text)[:columns-1]) + "…"
}

// count is how many nodes something is done to, with the verb that fits.
func count(nodes int) string {
	if nodes == 1 {
		return "one node is"
	}
	return fmt.Sprintf("%d nodes are", nodes)
}
