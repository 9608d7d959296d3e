package lock

import "time"

// While a process keeps the lock to its own calls, each change of the holder costs one round trip. Other processes wait
// meanwhile. See docs/adr/0006-waiting.md.
const (
	// maxWins is how many times in a row a process takes the lock while peers wait.
	maxWins = 6
	// maxLoneWins is the same while no peer and no client of another library is known to want the lock. Such clients
	// cannot announce themselves, so they get a gap of a few round trips.
	maxLoneWins = 48
)

// turn is the state of the turns in which processes take the lock. A peer is another process that waits for it.
type turn struct {
	wins     int           // how many times in a row this process has taken the lock
	from     time.Time     // since when this process has kept the lock to its own calls
	freedAt  time.Time     // when it released the lock last
	passing  bool          // the lock has gone from hand to hand in memory since it was taken
	until    time.Time     // until then it is the turn of other processes
	peers    []Peer        // the first is the next
	passedTo string        // the peer that this process has passed the turn to last. "" means none
	slowest  time.Duration // the longest RTT of the peers that were heard of lately
	came     bool          // a peer has passed the turn to this process since the head began to wait
	place    place         // the place of this process among the waiting ones
	gaveWay  bool          // it has given way to others since it saw the present holder
	announce uint32        // how many times it has told a holder that it waits
}

// place is the place of a process among the processes that wait for a lock.
type place uint8

// The places.
const (
	placeUnknown place = iota // no holder has heard that this process waits, so chance decides
	placeBehind               // other processes come first
	placeNext                 // this process comes first
)

// reset drops what this process knows of its place, when its next call begins to wait.
func (t *turn) reset() { t.came, t.place, t.gaveWay, t.passedTo = false, placeUnknown, false, "" }

// keptFrom records that this process has kept the lock to its own calls since at, if others had it before. If the lock
// was free for longer than a release waits, others have had their turn too.
func (t *turn) keptFrom(at time.Time, others bool, rtt time.Duration) {
	if others || t.othersHad(at, rtt) {
		t.from = at
	}
}

// othersHad reports whether others have had their turn since this process released the lock last: it was free for
// longer than a release waits.
func (t *turn) othersHad(at time.Time, rtt time.Duration) bool { return at.Sub(t.freedAt) >= 4*rtt }

// keptLong reports whether this process has kept the lock to its own calls for at least handoff. Then it is the turn of
// others. A handoff of 0 means never.
func (t *turn) keptLong(now time.Time, handoff time.Duration) bool {
	return t.wins > 0 && handoff > 0 && now.Sub(t.from) >= handoff
}

// again reports whether this process may take the lock once more before others do.
func (t *turn) again(contended bool) bool {
	return t.wins < maxWins || t.wins < maxLoneWins && len(t.peers) == 0 && !contended
}
