package pictures

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// majority is how many of five nodes a lock needs.
const majority = 3

// loss is the two ways in which a renewed lock ends before its release: the nodes forget it, or do not answer.
func loss(ctx context.Context) (*Timeline, error) {
	deleted, err := deletion(ctx)
	if err != nil {
		return nil, err
	}
	frozen, err := freeze(ctx)
	if err != nil {
		return nil, err
	}
	return &Timeline{
		Title: "Two ways to lose a renewed lock",
		Description: "Two time lines with lanes for five nodes and for the locks of A and B. In the first the key of A is deleted on three of the five nodes. " +
			"From then on B can take the lock, and does, while A still relies on it, until Done of A is closed about a round trip later. " +
			"In the second, three nodes freeze. A cannot renew, and Done is closed at the deadline. " +
			"The keys on the frozen nodes expire after that, so B gets the lock when A has ended.",
		Panels: []Panel{*deleted, *frozen},
		Legend: []Sample{{"a", "A's key; A holds the lock"}, {"b", "B's"}, {"wait", "waits"}, {"frozen", "node is frozen"},
			{"yes", "renewal done"}, {"no", "key deleted; renewal failed"}},
	}, nil
}

// contest is a lock that A holds and renews, over five nodes, while B waits for it.
type contest struct {
	*nodes
	start    time.Time // of A's call
	acquired event.Acquire
	b        chan error // the result of B's Lock, which is kept until the nodes end
	token    string     // of B's lock, after the result
}

// begin has A take the lock and renew it once. Commands of A and B take farA and farB.
func begin(ctx context.Context, ttl, timeout, farA, farB time.Duration) (_ *contest, err error) {
	c := &contest{b: make(chan error, 1)}
	if c.nodes, err = startNodes(ctx, 5); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	a, err := c.locker(ctx, "A", timeout, slices.Repeat([]time.Duration{farA}, 5))
	if err != nil {
		return nil, err
	}
	b, err := c.locker(ctx, "B", timeout, slices.Repeat([]time.Duration{farB}, 5))
	if err != nil {
		return nil, err
	}
	if _, err = a.TryLock(ctx, lockName, redlock.TTL(ttl), redlock.AutoExtend()); err != nil {
		return nil, errors.Join(errOtherwise, err)
	}
	acquired, err := await[event.Acquire](ctx, c.record, "A", 1, nil)
	if err != nil {
		return nil, err
	}
	c.acquired, c.start = acquired[0], acquired[0].Start
	waiting, cancel := context.WithCancel(ctx)
	c.ends = append(c.ends, cancel)
	c.watching.Go(func() {
		lock, err := b.Lock(waiting, lockName, redlock.TTL(10*time.Second))
		if err == nil {
			c.token = lock.Token()
		}
		c.b <- err
	})
	if _, err = await[event.Extend](ctx, c.record, "A", 1, nil); err != nil {
		return nil, err
	}
	return c, pause(ctx, 60*time.Millisecond)
}

// locks returns the lanes of A and B until a time, when A's lock ended, and when B had it.
func (c *contest) locks(ctx context.Context, until time.Duration) (lanes []Lane, end event.End, done, taken time.Duration, err error) {
	select {
	case err = <-c.b:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, end, 0, 0, err
	}
	ends, err := await[event.End](ctx, c.record, "A", 1, nil)
	if err != nil {
		return nil, end, 0, 0, err
	}
	b, err := await[event.Acquire](ctx, c.record, "B", 1, nil)
	if err != nil {
		return nil, end, 0, 0, err
	}
	end = ends[0]
	done, taken = end.Start.Add(end.Held).Sub(c.start), b[0].Start.Add(b[0].Took).Sub(c.start)
	until = max(until, done+60*time.Millisecond, taken+120*time.Millisecond)
	held := Lane{Name: "A", Bands: []Band{{Class: "a", From: end.Start.Sub(c.start), To: done, Text: "A holds the lock"}}}
	for _, e := range find[event.Extend](c.record, "A", nil) {
		class := "yes"
		if e.Err != nil {
			class = "no"
		}
		if at := e.Start.Add(e.Took).Sub(c.start); at < done {
			held.Marks = append(held.Marks, Mark{Class: class, At: at})
		}
	}
	lanes = []Lane{held, {Name: "B", Bands: []Band{
		{Class: "wait", From: b[0].Start.Sub(c.start), To: taken},
		{Class: "b", From: taken, To: until, Text: "B holds it"},
	}}}
	return lanes, end, done, taken, nil
}

// keyOfB returns the band of B's key on a node, if it is there: from when the key was last set.
func (c *contest) keyOfB(i int, set []keyEvent, after, until time.Duration) []Band {
	value, err := redis.String(c.servers[i].Do("GET", lockName))
	last := set[len(set)-1].At.Sub(c.start)
	if err != nil || value != c.token || last < after || last > until {
		return nil
	}
	return []Band{{Class: "b", From: last, To: until}}
}

// deletion is a lock that is deleted on three of five nodes.
func deletion(ctx context.Context) (*Panel, error) {
	c, err := begin(ctx, 900*time.Millisecond, time.Second, 20*time.Millisecond, 5*time.Millisecond)
	if err != nil {
		return nil, err
	}
	defer c.close()
	for _, s := range c.servers[:majority] {
		if _, err := s.Do("DEL", lockName); err != nil {
			return nil, err
		}
	}
	deletions, err := c.deletions(ctx, majority)
	if err != nil {
		return nil, err
	}
	lost := deletions[majority-1].At.Sub(c.start)
	lanes, end, done, taken, err := c.locks(ctx, 0)
	if err != nil {
		return nil, err
	}
	until := lanes[1].Bands[1].To
	p := &Panel{Heading: "The key is deleted on three of five nodes", Until: until, Rules: []Rule{
		{lost, "another may take it"}, {done, "Done closes: ErrLost"},
	}}
	if _, err := await(ctx, c.record, "nodes", majority+2, func(e keyEvent) bool { return e.What == "del" }); err != nil { // A's release of the rest
		return nil, err
	}
	for i := range c.servers {
		set, gone := c.keys(i, "set"), c.keys(i, "del")
		if len(set) == 0 || len(gone) == 0 {
			return nil, fmt.Errorf("%w: node %d was left out", errOtherwise, i+1)
		}
		lane := Lane{Name: nodeName(i), Bands: []Band{{Class: "a", From: set[0].At.Sub(c.start), To: gone[0].At.Sub(c.start)}}}
		if i < majority {
			lane.Marks = []Mark{{Class: "no", At: gone[0].At.Sub(c.start)}}
		}
		lane.Bands = append(lane.Bands, c.keyOfB(i, set, lost, until)...)
		p.Lanes = append(p.Lanes, lane)
	}
	p.Lanes = append(p.Lanes, lanes...)
	return p, show(
		claim{errors.Is(end.Err, redlock.ErrLost), "A's lock is lost"},
		claim{lost < taken, "B has the lock after the third deletion"},
		claim{lost < done, "Done closes after the third deletion"},
		claim{taken < done, "B has the lock before Done of A closes"},
	)
}

// deletions returns the first deletions of the key on n nodes.
func (c *contest) deletions(ctx context.Context, n int) ([]keyEvent, error) {
	return await(ctx, c.record, "nodes", n, func(e keyEvent) bool { return e.What == "del" })
}

// freeze is a lock of which three of five nodes freeze until their keys have expired.
func freeze(ctx context.Context) (*Panel, error) {
	c, err := begin(ctx, 500*time.Millisecond, 60*time.Millisecond, 5*time.Millisecond, 5*time.Millisecond)
	if err != nil {
		return nil, err
	}
	defer c.close()
	var expiries []time.Duration
	for i := range majority {
		at, err := c.expiry(i)
		if err != nil {
			return nil, err
		}
		expiries = append(expiries, at.Sub(c.start))
	}
	for _, s := range c.servers[:majority] {
		s.Freeze()
	}
	frozen := time.Since(c.start)
	// A's end releases the key on the other two, so with the first of the three that expires a majority does not hold it.
	free := slices.Min(expiries)
	if err := pause(ctx, slices.Max(expiries)-time.Since(c.start)+80*time.Millisecond); err != nil {
		return nil, err
	}
	thawed := time.Since(c.start)
	for _, s := range c.servers[:majority] {
		s.Thaw()
	}
	lanes, end, done, taken, err := c.locks(ctx, thawed)
	if err != nil {
		return nil, err
	}
	until := lanes[1].Bands[1].To
	p := &Panel{Heading: "Three of five nodes freeze", Until: until, Rules: []Rule{
		{done, "Done closes: ErrExpired"}, {free, "another may take it"},
	}}
	for i := range c.servers {
		set, gone := c.keys(i, "set"), c.keys(i, "del")
		if len(set) == 0 {
			return nil, fmt.Errorf("%w: node %d was left out", errOtherwise, i+1)
		}
		lane := Lane{Name: nodeName(i)}
		last := until
		if i < majority {
			last = expiries[i]
		} else if len(gone) > 0 {
			last = gone[0].At.Sub(c.start)
		}
		lane.Bands = append(lane.Bands, Band{Class: "a", From: set[0].At.Sub(c.start), To: last})
		if i < majority {
			lane.Bands = append(lane.Bands, Band{Class: "frozen", From: frozen, To: thawed, Text: "frozen"})
		}
		lane.Bands = append(lane.Bands, c.keyOfB(i, set, done, until)...)
		p.Lanes = append(p.Lanes, lane)
	}
	p.Lanes = append(p.Lanes, lanes...)
	return p, show(
		claim{errors.Is(end.Err, redlock.ErrExpired), fmt.Sprintf("A's lock ends at its deadline, and not with %v", end.Err)},
		claim{frozen < done, "Done closes after the nodes froze"},
		claim{done < free, "Done closes before a key expires"},
		claim{free < taken, "B has the lock after a key has expired"},
	)
}
