package sim

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"
)

// world is true time and what happens in it.
type world struct {
	plan     Plan
	now      time.Duration // true time since the run began
	events   []event       // the next is the last
	trace    *[]string     // nil means that nothing is logged
	recorded bool          // the trace tells also what names ask for
	failed   *Violation

	servers  []*server
	clients  []*client
	amnesia  bool          // a node has forgotten locks
	restored time.Duration // when a node has last gone on with what had been deleted
	resting  bool          // all faults are gone

	rounds   map[life]*round // acquires
	locks    []*held         // that were ever held
	comers   int             // calls of Lock
	gone     int             // of them that have ended
	waits    int             // calls of Lock, but for those of readers that come and go
	served   int             // of them that have ended
	restAt   time.Duration   // when all faults are gone
	patience time.Duration   // how long a lock may be free after that while somebody waits for it
	racing   time.Duration   // until when slots are had by chance, as clients that want one come and go

	fences []fence // that were ever given
	lapsed bool    // a key has gone before its time
	forced bool    // likewise, as a client wanted it
	rushed bool    // others have taken a lock in turn

	turned map[string][]turns // by client: of each key
	wins   map[string]int     // how many times each key was won
	pairs  struct{ all, wrong int }
}

// life is one life of a key: what an acquire begins.
type life struct{ token, key string }

// Violation is a broken promise.
type Violation struct {
	What string // the promise, the same for every run that breaks it
	How  string
}

func (v *Violation) Error() string { return fmt.Sprintf("%s: %s", v.What, v.How) }

// check notes the first promise that is not kept; the run ends there.
func (w *world) check(kept bool, what, how string, args ...any) {
	if !kept && w.failed == nil {
		w.failed = &Violation{what, fmt.Sprintf(how, args...)}
		w.log("VIOLATION: %v", w.failed)
	}
}

// log adds a line to the trace, if there is one.
func (w *world) log(format string, args ...any) {
	if w.trace != nil {
		at := float64(w.now) / float64(time.Millisecond)
		line := fmt.Sprintf("%10.3f ms  ", at) + fmt.Sprintf(format, args...)
		*w.trace = append(*w.trace, ours.ReplaceAllStringFunc(line, func(text string) string {
			owner, number, token := strings.Cut(text, ".")
			short := fmt.Sprintf("c%d", owner[1]-'A')
			if token {
				short += "-" + strings.TrimLeft(number, "0")
			}
			return short
		}))
	}
}

// ours are the tokens of clients, and their owner parts, which a trace shortens.
var ours = regexp.MustCompile(`C[A-Z]AAAAAA(\.\d+)?`)

// event is something that happens at an instant.
type event struct {
	at time.Duration
	do func()
}

// at schedules something; what lies in the past happens now. What was scheduled first for an instant
// happens first.
func (w *world) at(when time.Duration, do func()) {
	when = max(when, w.now)
	i := sort.Search(len(w.events), func(i int) bool { return w.events[i].at <= when })
	w.events = slices.Insert(w.events, i, event{when, do})
}

func (w *world) after(d time.Duration, do func()) { w.at(w.now+d, do) }

// run lets everything happen until an instant.
func (w *world) run(until time.Duration) {
	for n := len(w.events); n > 0 && w.events[n-1].at <= until && w.failed == nil; n = len(w.events) {
		next := w.events[n-1]
		w.events = w.events[:n-1]
		w.now = next.at
		next.do()
	}
	w.now = max(w.now, until)
}

// chance is a number that depends on nothing but the seed and what it is for: leaving a
// step out of a plan leaves the chances of the others as they are.
func (w *world) chance(of ...int) uint64 {
	h := w.plan.Seed
	for _, x := range of {
		h ^= uint64(x)
		h += 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// latency is how long a message from or to a client takes: a fraction of a millisecond as a rule, longer
// than the node timeout at times.
func (w *world) latency(client int, of ...int) time.Duration {
	c := w.chance(append([]int{client}, of...)...)
	base := 40*time.Microsecond + time.Duration(c>>8%200)*time.Microsecond
	if w.plan.Far > 0 && client == w.plan.Clients-1 {
		base *= time.Duration(w.plan.Far)
	}
	switch n := c & 63; {
	case w.plan.Calm, w.plan.Storm && n < 2:
	case n < 2:
		return base + time.Duration(c>>16%80)*time.Millisecond
	case n < 6:
		return base + time.Duration(c>>16%4000)*time.Microsecond
	}
	return base
}

// clock is the clock of one machine.
type clock struct {
	world *world
	rate  float64
	leapt time.Duration
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// reading is what the clock shows.
func (c *clock) reading() time.Duration {
	return time.Duration(float64(c.world.now)*c.rate) + c.leapt
}

// Now implements [quorum.Clock].
func (c *clock) Now() time.Time { return epoch.Add(c.reading()) }

// until is the true time that goes by until the clock shows t.
func (c *clock) until(t time.Time) time.Duration {
	return time.Duration(float64(t.Sub(c.Now())) / c.rate)
}

// since returns a number in microseconds since the run began.
func since(number uint64) int64 { return int64(number) - epoch.Add(noon).UnixMicro() }

// noon is what the clocks of nodes show when a run begins, but for their offset.
const noon = 12 * time.Hour
