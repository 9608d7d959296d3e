// Package journal decides which lines the log of a Locker gets, so that one cause is one line.
//
//   - While no majority of the nodes votes, one line says that, and one that it is over. Lines about the
//     consequences are counted.
//   - A line that an outage may have caused waits for Hold, until it is known whether there is one.
//   - Of each level, at most Most lines are written in a Period. The others are counted, and a line has the counts.
//
// A Journal does no I/O, reads no clock and starts no goroutine. It is not safe for concurrent use.
package journal

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

const (
	// Hold is how long a line waits that an outage may have caused. A node that is back earlier is no news.
	Hold = 2 * time.Second
	// Most is the number of lines of a level that are written in a Period.
	Most = 10
	// Period is the time for which lines are counted. It begins with a line.
	Period = time.Minute
)

// Line is a line of the log.
type Line struct {
	At      time.Time
	Level   slog.Level
	Message string
	Args    []any
	// Outage means that an outage may be the cause. Lost means that the line is about a lock that was lost.
	Outage, Lost bool
}

// Out is why a node does not vote.
type Out struct {
	Line   Line   // the line about this node alone
	Reason string // the reason in a line about several nodes
}

// Journal has the lines of a Locker that wait, and counts the lines that were written.
type Journal struct {
	addrs  []string
	nodes  []node
	held   []held
	outage *outage // nil while a majority votes, and until Hold after that
	infos  period  // of level Info
	warns  period  // of higher levels
	write  []Line
	closed bool
}

// node is how a node stands.
type node struct {
	out   *Out // nil if the node votes
	since time.Time
	due   time.Time // when a line is written about the node
	told  string    // the message that was written about the node, or about an outage that it is part of; "" for none
}

// held is a line that waits.
type held struct {
	line Line
	due  time.Time
}

// outage is the time in which no majority votes.
type outage struct {
	since time.Time // when the last node that was needed stopped to vote
	told  bool      // its line was written
	lost  int       // the number of locks that were lost in it
}

// period is a time in which the lines of a level are counted.
type period struct {
	from    time.Time
	written int
	left    map[string]int // how many lines were not written, by message; nil for none
	level   slog.Level     // that of the first of these
}

// New returns the Journal of a Locker with nodes at these addresses.
func New(addrs []string) *Journal {
	return &Journal{addrs: addrs, nodes: make([]node, len(addrs))}
}

// need is the number of nodes that are a majority.
func (j *Journal) need() int { return quorum.Majority(len(j.nodes)) }

// short reports whether no majority votes.
func (j *Journal) short() bool {
	votes := 0
	for i := range j.nodes {
		if j.nodes[i].out == nil {
			votes++
		}
	}
	return votes < j.need()
}

// Add adds a line.
func (j *Journal) Add(now time.Time, line Line) {
	if !line.Outage || j.closed {
		j.put(now, line)
		return
	}
	j.held = append(j.held, held{line, now.Add(Hold)})
}

// Out records that a node does not vote.
func (j *Journal) Out(now time.Time, i int, out Out) {
	n := &j.nodes[i]
	if n.out == nil || n.out.Line.Message != out.Line.Message {
		n.since, n.due = now, now.Add(Hold)
	}
	n.out = &out
}

// In records that a node votes. told reports whether a line said that it did not. waiting is how many calls wait.
func (j *Journal) In(now time.Time, i, waiting int) (told bool) {
	n := &j.nodes[i]
	told = n.told != ""
	*n = node{}
	if o := j.outage; o != nil && !j.short() {
		j.outage = nil
		j.over(now, o, waiting)
		for i := range j.nodes { // those that stay away get lines of their own
			j.nodes[i].told, j.nodes[i].due = "", now.Add(Hold)
		}
	}
	return told
}

// over writes that an outage is over, if its beginning was written.
func (j *Journal) over(now time.Time, o *outage, waiting int) {
	args := []any{"after", now.Sub(o.since).Round(time.Millisecond)}
	if waiting > 0 {
		args = append(args, "waiting", waiting)
	}
	if o.lost > 0 {
		args = append(args, "lost", o.lost)
	}
	line := Line{At: now, Level: slog.LevelWarn, Message: "redlock: a quorum of nodes again", Args: args}
	if o.told {
		j.write = append(j.write, line) // beginOutage has counted it
	} else {
		j.put(now, line)
	}
}

// list returns the nodes that do not vote, and why.
func (j *Journal) list() string {
	var out []string
	for i := range j.nodes {
		if n := &j.nodes[i]; n.out != nil {
			out = append(out, j.addrs[i]+": "+n.out.Reason)
		}
	}
	return strings.Join(out, "; ")
}

// Lines decides about the lines that are due, and returns those to write now. again is when to ask again at the latest,
// or zero for never.
func (j *Journal) Lines(now time.Time) (write []Line, again time.Time) {
	again = j.decide(now)
	for _, p := range []*period{&j.infos, &j.warns} {
		switch over := p.from.Add(Period); {
		case p.left == nil:
		case now.Before(over):
			again = earlier(again, over)
		default:
			j.count(now, p)
		}
	}
	write, j.write = j.write, nil
	return write, again
}

// decide decides about the nodes and the lines that have waited for Hold.
func (j *Journal) decide(now time.Time) (again time.Time) {
	for i := range j.nodes {
		n := &j.nodes[i]
		switch {
		case n.out == nil || n.told == n.out.Line.Message || j.closed:
		case now.Before(n.due):
			again = earlier(again, n.due)
		case j.outage != nil:
			n.told = n.out.Line.Message
		case j.short():
			j.beginOutage(now)
		default:
			n.told = n.out.Line.Message
			j.put(now, n.out.Line)
		}
	}
	waits := j.held[:0]
	for _, h := range j.held {
		switch {
		case j.outage != nil:
			if h.line.Lost {
				j.outage.lost++
			}
		case now.Before(h.due) && !j.closed:
			again = earlier(again, h.due)
			waits = append(waits, h)
		case j.short() && !j.closed: // a node is due soon, and then it is known whether that is the cause
			waits = append(waits, h)
		default:
			j.put(now, h.line)
		}
	}
	clear(j.held[len(waits):])
	j.held = waits
	return again
}

// beginOutage writes that no majority votes. The line about its end is counted at once, so that it is written too.
func (j *Journal) beginOutage(now time.Time) {
	o := &outage{}
	var since []time.Time
	for i := range j.nodes {
		if n := &j.nodes[i]; n.out != nil {
			since, n.told = append(since, n.since), n.out.Line.Message
		}
	}
	slices.SortFunc(since, time.Time.Compare)
	o.since = since[len(j.nodes)-j.need()] // when the votes of the others became too few
	j.outage = o
	o.told = j.put(now, Line{
		At: now, Level: slog.LevelWarn, Message: "redlock: no quorum of nodes: no lock is granted",
		Args: []any{"need", j.need(), "of", len(j.nodes), "out", j.list()},
	})
	if o.told {
		j.warns.written++
	}
}

// put writes a line, if its level has room in the period.
func (j *Journal) put(now time.Time, line Line) (written bool) {
	p := &j.warns
	switch {
	case line.Level < slog.LevelInfo: // its readers look for details, and want all
		j.write = append(j.write, line)
		return true
	case line.Level < slog.LevelWarn:
		p = &j.infos
	}
	if now.Sub(p.from) >= Period {
		j.count(now, p)
		*p = period{from: now}
	}
	if p.written >= Most {
		if p.left == nil {
			p.left, p.level = map[string]int{}, line.Level
		}
		p.left[line.Message]++
		return false
	}
	p.written++
	j.write = append(j.write, line)
	return true
}

// count writes how many lines of a period were not written.
func (j *Journal) count(now time.Time, p *period) {
	if p.left == nil {
		return
	}
	sum := 0
	var each []string
	for message, n := range p.left {
		sum += n
		each = append(each, fmt.Sprintf("%s (%d)", strings.TrimPrefix(message, "redlock: "), n))
	}
	slices.Sort(each)
	p.left = nil
	j.write = append(j.write, Line{
		At: now, Level: p.level, Message: "redlock: more lines than are logged",
		Args: []any{"lines", sum, "about", strings.Join(each, "; ")},
	})
}

// Close writes the lines that wait and the counts. No line waits from now on.
func (j *Journal) Close(now time.Time) {
	j.closed = true
	j.decide(now)
	j.count(now, &j.infos)
	j.count(now, &j.warns)
}

// earlier returns the earlier of two times, of which the first may be zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
