package redlocktest

import (
	"context"
	"errors"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/redlock"
)

// probe is the name of a lock that nobody takes. Lockers are asked about it to learn whether a node answers.
const probe = "redlocktest"

// inBubble reports whether the caller is in a bubble of testing/synctest. The documentation of synctest promises that
// the time of a bubble begins at midnight UTC 2000-01-01. A bubble may have advanced by years since; a machine's clock
// is not set to a time before Go had bubbles.
func inBubble() bool {
	year := time.Now().UTC().Year() // a bubble begins at midnight UTC 2000-01-01, which may be 1999 in local time
	return 2000 <= year && year < 2015
}

// bubbleClock is the time of the bubble. [clock.System] keeps real time there.
type bubbleClock struct{}

func (bubbleClock) Now() time.Time { return time.Now().Round(0) }

func (bubbleClock) AfterFunc(d time.Duration, f func()) clock.Timer { return time.AfterFunc(d, f) }

// enter ends the test if the Cluster was made in a bubble and is used outside of it, or the reverse.
func (c *Cluster) enter() {
	c.t.Helper()
	if inBubble() != c.bubble {
		c.t.Fatal("redlocktest: make the Cluster where it is used: either in the bubble of synctest.Test or outside of it")
	}
}

// Advance moves time forward by d and waits until everything that follows from that is done: renewals, rounds of Lock,
// the ends of locks. It is time.Sleep(d) and synctest.Wait. A negative d ends the test. So does a Cluster outside a
// bubble of testing/synctest, where time cannot be moved.
func (c *Cluster) Advance(d time.Duration) {
	c.t.Helper()
	c.enter()
	if !c.bubble {
		c.t.Fatalf(
			"redlocktest: Advance(%s): this Cluster lives in real time: "+
				"make it within synctest.Test, in which time can be moved",
			d)
	}
	if d < 0 {
		c.t.Fatalf("redlocktest: Advance(%s): time does not go back", d)
	}
	c.inTurn(func() { <-time.After(d) }, synctest.Wait)
}

// settle waits until the nodes have carried out the commands that the Lockers have sent. The caller has the turn.
func (c *Cluster) settle() {
	if c.bubble {
		synctest.Wait()
		return
	}
	for _, l := range c.allLockers() { // a node carries out commands in the order in which a Locker sent them
		_, _ = l.Inspect(context.WithoutCancel(c.t.Context()), probe)
	}
}

// awaitAnswers waits until every Locker gets answers from nodes that were started. The answers matter in a bubble too:
// a connection that has not served a command is not replaced at once when it breaks.
func (c *Cluster) awaitAnswers(nodes []int) {
	for _, l := range c.allLockers() {
		for !answers(c.t.Context(), l, nodes) {
			<-time.After(time.Millisecond)
		}
	}
}

// answers reports whether a Locker gets answers from the nodes, or is closed.
func answers(ctx context.Context, l *redlock.Locker, nodes []int) bool {
	state, err := l.Inspect(context.WithoutCancel(ctx), probe)
	if errors.Is(err, redlock.ErrClosed) {
		return true
	}
	for _, i := range nodes {
		if state.Nodes[i].Err != nil {
			return false
		}
	}
	return true
}
