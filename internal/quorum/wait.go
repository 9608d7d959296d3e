package quorum

import (
	"slices"
	"time"
)

// Pace is how a contender spends its time.
type Pace struct {
	First, Most time.Duration // of the pause between rounds where nothing tells when to go
	// Heal is how long a key has to be seen without any TTL, and unchanged, before it is
	// taken for one that somebody left behind; 0: it never is.
	Heal   time.Duration
	Random func(below time.Duration) time.Duration
}

// relook bounds the time for which nothing is looked at, whatever was promised to be told.
const relook = 30 * time.Second

// Moves is what the shell has to do for the contender.
type Moves struct {
	Try      bool      // go another round, for the waiter at the head
	Look     []int     // look at these nodes
	Heal     []int     // delete there what Sight shows, if it is still that and has no TTL
	Announce *Announce // tell the holder that somebody waits here
	Pass     *Pass     // tell another process that it is its turn
	Listen   bool      // from now on, events of others count
	At       time.Time // call Tick then; zero: the time decides nothing
}

// wait is what a contender knows of a key that others hold, and decides when it goes
// another round for it. A wake-up is a hint: it leads to a look or a round, and the round
// alone to the lock.
type wait struct {
	pace   Pace
	sights []sight

	trying bool
	splits int           // rounds in a row that nobody won
	polls  int           // rounds in a row that were lost to the same holder, or to failing nodes
	alarms int           // wake-ups that came to nothing
	woken  bool          // the round under way was begun by one
	polite bool          // the turn may be promised to another: what looks free is looked at twice
	rtt    time.Duration // of a round, smoothed

	notBefore time.Time // no round before
	probeAt   time.Time // no look after a wake-up before
	pollAt    time.Time // the next round, where nothing tells of changes
	relookAt  time.Time
}

// lose takes note of a round that was lost: everything has to be looked at.
func (w *wait) lose(now time.Time) Moves {
	w.trying = false
	if w.woken {
		w.alarms++
	}
	w.woken = false
	w.notBefore, w.pollAt, w.probeAt = w.pause(now, w.splits), w.pause(now, w.polls), now
	w.splits++
	w.polls++
	for i := range w.sights {
		w.sights[i].unknown()
	}
	return w.lookAround(now)
}

// pause returns the end of a pause that begins now. It is jittered, and doubles with every
// time that there was one.
func (w *wait) pause(now time.Time, times int) time.Time {
	d := w.pace.double(times)
	return now.Add(d/4 + w.pace.Random(d-d/4))
}

func (p *Pace) double(times int) time.Duration {
	d := p.First << min(times, 20)
	if d <= 0 || d > p.Most {
		return p.Most
	}
	return d
}

func (w *wait) lookAround(now time.Time) Moves {
	w.relookAt = now.Add(relook)
	m := Moves{Listen: true}
	for i := range w.sights {
		if s := &w.sights[i]; !s.looking && !s.healing {
			s.looking = true
			m.Look = append(m.Look, i)
		}
	}
	return m
}

// saw takes in what a look has shown.
func (w *wait) saw(now time.Time, node int, seen Sight) {
	s := &w.sights[node]
	before := *s
	*s = sight{Sight: seen}
	if !seen.Answered {
		s.Token, s.since, s.changed = before.Token, before.since, before.stale
		return
	}
	if seen.Held {
		s.ends = now.Add(seen.TTL + time.Millisecond) // TTLs are told in whole ones
	}
	if seen.NoTTL {
		s.since = now
		if !before.since.IsZero() && before.Token == seen.Token {
			s.since = before.since
		}
	}
	if before.stale {
		s.changed, s.Watched = true, false
	}
	if w.holder() != "" { // nothing but a holder was in the way
		w.splits, w.notBefore = 0, now
	}
	if before.changed {
		w.probed(now, s, &before)
	}
}

// probed takes in what a look has shown at a node that had told of a change.
func (w *wait) probed(now time.Time, s, before *sight) {
	another := s.Token != before.Token
	switch {
	case s.Held && another: // it goes from hand to hand
		w.alarms++
		w.polls, w.polite = 0, true
		w.probeAt = now.Add(min(w.pace.double(w.alarms-1), w.pace.Most/8))
		if soon := now.Add(w.pace.Most); soon.Before(w.relookAt) {
			w.relookAt = soon // it may be a leftover on this node alone
		}
	case s.Held && !s.ends.After(before.ends.Add(w.pace.Most)): // nothing has happened here
		w.alarms++
		return
	case s.Held: // its holder has extended it
		w.alarms++
	case w.polite:
		w.polite, s.changed = false, true
		w.probeAt = now.Add(w.grace())
		return
	}
	if s.NoTTL { // for how long it has been so elsewhere has to be seen there
		return
	}
	// What has changed elsewhere has changed for the same reason, unless another holds it there. What does
	// not tell of changes goes with what does.
	for i := range w.sights {
		o := &w.sights[i]
		told := o.changed && (!s.Held || another || o.Token == s.Token)
		goes := o.Held && !o.Watched && o.Token == before.Token
		if o != s && (told || goes) {
			o.becomes(sight{Sight: s.Sight, ends: s.ends})
			o.Watched = false
		}
	}
}

// grace is the time that others need to take what has become free.
func (w *wait) grace() time.Duration { return 2*w.rtt + w.pace.Random(2*w.rtt) }

// judge decides what to do now.
func (w *wait) judge(now time.Time) Moves {
	need := Majority(len(w.sights))
	var free, changed, looking, probing int
	var m Moves
	ends := make([]time.Time, 0, len(w.sights)) // when nodes may let go
	for i := range w.sights {
		s := &w.sights[i]
		switch {
		case s.healing:
			looking++
			continue
		case s.changed:
			changed++
			if s.looking {
				probing++
			}
			if !s.ends.IsZero() {
				ends = append(ends, s.ends)
			}
		case s.looking:
			looking++
		case s.free():
			free++
			ends = append(ends, now)
		case !s.Answered: // it may be either
		case s.NoTTL && w.pace.Heal > 0 && !now.Before(s.since.Add(w.pace.Heal)):
			s.healing = true
			m.Heal = append(m.Heal, i)
			looking++
		case s.NoTTL:
			if w.pace.Heal > 0 {
				m.wake(s.since.Add(w.pace.Heal))
			}
		default:
			ends = append(ends, s.ends)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	over := len(ends) >= need && !now.Before(ends[need-1])
	switch {
	case free >= need || over:
		return w.tryAt(now, w.notBefore, m)
	case w.alarms == 0 && free+changed >= need:
		w.woken = true
		return w.tryAt(now, w.notBefore, m)
	case changed > 0 && probing == 0:
		if now.Before(w.probeAt) {
			m.wake(w.probeAt)
			break
		}
		i := slices.IndexFunc(w.sights, func(s sight) bool { return s.changed && !s.healing })
		w.sights[i].looking = true
		m.Look = append(m.Look, i)
	case looking+probing == 0 && w.guarded(now) <= len(w.sights)-need:
		if now.Before(w.pollAt) {
			m.wake(w.pollAt)
			break
		}
		return w.tryAt(now, w.notBefore, m)
	}
	if len(ends) >= need {
		m.wake(ends[need-1])
	} else if i := slices.IndexFunc(ends, now.Before); looking+probing == 0 && i >= 0 {
		m.wake(ends[i]) // one guard less
	}
	if !now.Before(w.relookAt) {
		m.Look = append(m.Look, w.lookAround(now).Look...)
	}
	m.wake(w.relookAt)
	return m
}

// tryAt has a round begun, not before an instant.
func (w *wait) tryAt(now, at time.Time, m Moves) Moves {
	if now.Before(at) {
		m.wake(at)
		return m
	}
	w.trying = true
	m.Try = true
	return m
}

func (m *Moves) wake(at time.Time) {
	if m.At.IsZero() || at.Before(m.At) {
		m.At = at
	}
}
