package stack_test

import (
	"fmt"
	"time"
)

// fault is something that goes wrong with one server.
type fault struct {
	at    time.Duration
	kind  faultKind
	node  int
	wide  bool // it hits a majority of the servers: node, and those behind it
	lasts time.Duration
	how   int // which of the variants
}

type faultKind uint8

const (
	slow         faultKind = iota // messages take longer
	freeze                        // it stands still, and goes on with what is in its buffers
	cutBefore                     // the next command is not carried out, and its connection is cut
	cutAfter                      // the next command is carried out, and its connection is cut
	half                          // the next reply ends in the middle, and so does its connection
	garbage                       // the next reply makes no sense
	restart                       // it is down, with its scripts forgotten
	forget                        // the same, with its keys forgotten
	flushScripts                  // SCRIPT FLUSH
	refuse                        // dials are refused
	swallow                       // dials are not answered
	refusals                      // commands are answered with an error
	stall                         // what was and will be written on the connections that there are arrives later
	mute                          // nothing more gets through on the connections that there are
	cut                           // all connections are reset
	numFaults
)

var faultNames = [numFaults]string{
	"slow", "freeze", "cut before", "cut after", "half a reply", "garbage", "restart", "restart without keys", "script flush",
	"refused dials", "dials without answer", "error replies", "stalled connections", "mute connections", "cut connections",
}

func (k faultKind) String() string { return faultNames[k] }

func (f fault) String() string {
	which := fmt.Sprintf("server %d", f.node)
	if f.wide {
		which = fmt.Sprintf("a majority from server %d on", f.node)
	}
	return fmt.Sprintf("%v of %s for %v (%d)", f.kind, which, f.lasts, f.how)
}

func newFault(d dice, p *plan) fault {
	f := fault{
		at:    upTo(d, 100, 5*unit),
		kind:  faultKind(d.roll(int(numFaults))),
		node:  d.roll(p.nodes),
		lasts: pick(d, 50*unit, unit, 5*unit, 20*unit, 100*unit, 300*unit, 900*unit),
		how:   d.roll(12),
		wide:  oneIn(d, 4),
	}
	if oneIn(d, 6) { // what arrives late is what most of the library is about
		f.kind = stall
	}
	if f.kind == forget && !p.forgetful {
		f.kind = restart
	}
	return f
}

// strike makes the fault happen to the server, and returns what ends it.
func (f fault) strike(s *server) (lift func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := func(end func()) func() {
		return func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			end()
			s.change.Broadcast()
		}
	}
	counter := func(n *int) func() {
		*n++
		return until(func() { *n-- })
	}
	switch f.kind {
	case slow:
		by := int64(f.how) * int64(5*unit)
		s.slower.Add(by)
		return func() { s.slower.Add(-by) }
	case freeze:
		return counter(&s.frozen)
	case cutBefore, cutAfter, half, garbage:
		s.traps = append(s.traps, f)
		return until(func() { s.traps = nil })
	case restart, forget:
		s.resetLocked()
		s.runs++
		clear(s.scripts)
		if f.kind == forget {
			clear(s.keys)
		}
		return counter(&s.down)
	case flushScripts:
		clear(s.scripts)
	case refuse:
		return counter(&s.down)
	case swallow:
		return counter(&s.unreachable)
	case refusals:
		s.refusal = refusalTexts[f.how%len(refusalTexts)]
		return until(func() { s.refusal = "" })
	case stall:
		for _, p := range s.peers {
			p.stalled = true
		}
		return until(func() {
			for _, p := range s.peers {
				p.stalled = false
			}
		})
	case mute:
		for _, p := range s.peers {
			p.mute = true
		}
	case cut:
		s.resetLocked()
	}
	return func() {}
}

var refusalTexts = []string{
	"LOADING Redis is loading the dataset in memory",
	"READONLY You can't write against a read only replica.",
	"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	"OOM command not allowed when used memory > 'maxmemory'.",
}

// garbageTexts are replies that Redis gives to no lock command.
var garbageTexts = []string{
	"+WHAT\r\n", "$5\r\nhello\r\n", ":7\r\n", "*2\r\n:1\r\n+OK\r\n", "@@@\r\n", "$64\r\n", "\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n",
}
