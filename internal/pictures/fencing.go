package pictures

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// fencing is a holder, a process of its own, that is frozen after it has checked its lock and before it writes. Another holder
// writes meanwhile, and the resource refuses the first one's write.
func fencing(ctx context.Context) (*Timeline, error) {
	const ttl = 350 * time.Millisecond
	c, err := startNodes(ctx, 4)
	if err != nil {
		return nil, err
	}
	defer c.close()
	server := c.servers[3]
	c.servers = c.servers[:3]
	c.ends = slices.Insert(c.ends, 0, func() { _ = server.Close() })
	b, err := c.locker(ctx, "B", time.Second, make([]time.Duration, 3), redlock.WithFencing())
	if err != nil {
		return nil, err
	}
	resource, err := redis.DialContext(ctx, "tcp", server.Addr())
	if err != nil {
		return nil, err
	}
	defer resource.Close()

	a, err := startHolder(task{testredis.URLs(c.servers), server.URL(), ttl})
	if err != nil {
		return nil, err
	}
	defer a.Kill()
	defer context.AfterFunc(ctx, a.Kill)() // ends what is read from it
	held, err := a.next("held")
	if err != nil {
		return nil, err
	}
	first, err := a.next("wrote")
	if err != nil {
		return nil, err
	}
	checked, err := a.next("checked")
	if err != nil {
		return nil, err
	}
	if err := a.Freeze(); err != nil {
		return nil, err
	}
	frozen := time.Now()
	lock, err := b.Lock(ctx, lockName, redlock.TTL(10*time.Second))
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, 40*time.Millisecond); err != nil {
		return nil, err
	}
	between := write(ctx, resource, lock.Fence())
	if err := pause(ctx, 220*time.Millisecond); err != nil {
		return nil, err
	}
	// A finds the line when it goes on, and writes.
	if _, err := io.WriteString(a.in, "\n"); err != nil {
		return nil, err
	}
	thawed := time.Now()
	if err := a.Thaw(); err != nil {
		return nil, err
	}
	late, err := a.next("wrote")
	if err != nil {
		return nil, err
	}
	ended, err := a.next("ended")
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, 100*time.Millisecond); err != nil {
		return nil, err
	}
	if err := lock.Unlock(ctx); err != nil {
		return nil, errors.Join(errOtherwise, err)
	}
	acquired, err := await[event.Acquire](ctx, c.record, "B", 1, nil)
	if err != nil {
		return nil, err
	}
	end, err := await[event.End](ctx, c.record, "B", 1, nil)
	if err != nil {
		return nil, err
	}
	text := digits(held.Fence, lock.Fence())

	start := held.from()
	at := func(t time.Time) time.Duration { return t.Sub(start) }
	got, released := at(end[0].Start), at(end[0].Start.Add(end[0].Held))
	until := max(released, at(late.to())+80*time.Millisecond) + 30*time.Millisecond
	t := &Timeline{
		Title: "A paused holder and fencing tokens",
		Description: fmt.Sprintf("Four lanes over an axis of time. Holder A takes the lock with the fencing token %s, writes, checks the lock, and is paused. "+
			"Its lock ends at the deadline. B gets the lock with the higher fencing token %s and writes. "+
			"Then A goes on and writes with %s: the resource, which has accepted %s, refuses that.", text[0], text[1], text[0], text[1]),
		Legend: []Sample{{"a", "A's lock"}, {"b", "B's lock"}, {"wait", "waits"}, {"frozen", "process is paused"}, {"yes", "write accepted"}, {"no", "write refused"}, {"arrow", "write"}},
	}
	t.Panels = []Panel{{
		Until: until,
		Rules: []Rule{{at(held.to()), "A's deadline"}},
		Lanes: []Lane{
			{Name: "A's lock", Bands: []Band{{Class: "a", To: at(held.to()), Text: "fence " + text[0]}}},
			{Name: "A's process", Bands: []Band{{Class: "grey", To: until}, {Class: "frozen", From: at(frozen), To: at(thawed), Text: "paused"}},
				Marks: []Mark{{"", at(checked.to()), "checks the lock: held"}, {"", at(late.from()), "writes: ErrStale"}}},
			{Name: "resource", Bands: []Band{
				{Class: "a", From: at(first.to()), To: at(between.to()), Text: "has accepted " + text[0]},
				{Class: "b", From: at(between.to()), To: until, Text: "has accepted " + text[1]},
			}, Marks: []Mark{{"yes", at(first.to()), ""}, {"yes", at(between.to()), ""}, {"no", at(late.to()), ""}}},
			{Name: "B's lock", Bands: []Band{
				{Class: "wait", From: at(acquired[0].Start), To: got},
				{Class: "b", From: got, To: released, Text: "fence " + text[1]},
			}, Marks: []Mark{{"", at(between.from()), "writes"}}},
		},
		Arrows: []Arrow{{1, 2, at(first.from()), at(first.to())}, {3, 2, at(between.from()), at(between.to())}, {1, 2, at(late.from()), at(late.to())}},
	}}
	return t, show(
		claim{first.Err == "", "A's first write is accepted"},
		claim{at(checked.to()) < at(held.to()) && frozen.Before(held.to()), "A is paused before its deadline"},
		claim{lock.Fence() > held.Fence && between.Err == "", "B writes with a higher fencing token"},
		claim{late.Seen == lock.Fence(), "the resource refuses A's second write, as it has accepted B's"},
		claim{strings.HasSuffix(ended.Err, "lock has expired"), "A's lock has expired"},
		claim{at(held.to()) < got, "B has the lock after A's deadline"},
	)
}
