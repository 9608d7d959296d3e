package tenants_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// kind is what a foreign key holds. Data cannot be a lock; anything else may be one, of another client.
type kind struct {
	name  string
	data  bool
	write func(payload string, d *rand.Rand) []any // a command and its arguments, without the key, which comes second
}

func text(t string) func(string, *rand.Rand) []any {
	return func(string, *rand.Rand) []any { return []any{"SET", t} }
}

var kinds = []kind{
	{"list", true, func(string, *rand.Rand) []any { return []any{"RPUSH", "a", "b"} }},
	{"hash", true, func(string, *rand.Rand) []any { return []any{"HSET", "field", "value"} }},
	{"set", true, func(string, *rand.Rand) []any { return []any{"SADD", "a", "b"} }},
	{"sorted set", true, func(string, *rand.Rand) []any { return []any{"ZADD", 1, "a"} }},
	{"stream", true, func(string, *rand.Rand) []any { return []any{"XADD", "*", "field", "value"} }},
	{"large list", true, func(string, *rand.Rand) []any { return []any{"RPUSH", strings.Repeat("x", 100_000), 1, 2, 3} }},
	{"string of 1025 bytes", true, text(strings.Repeat("x", 1025))},
	{"large string", true, func(payload string, d *rand.Rand) []any { return []any{"SET", payload[:2000+d.IntN(1<<20)]} }},
	{"huge string", true, func(payload string, d *rand.Rand) []any { return []any{"SET", payload[:1<<20+d.IntN(4<<20)]} }},
	{"large bitmap", true, func(string, *rand.Rand) []any { return []any{"SETBIT", 1 << 24, 1} }},
	{"string of 1024 bytes", false, text(strings.Repeat("x", 1024))},
	{"short string", false, text("data of a program")},
	{"empty string", false, text("")},
	{"token of another client", false, text("Zm9yZWlnbg==")},
	{"bar", false, text("|")},
	{"token with a huge number", false, text("x|9223372036854775808")},
	{"token with a negative number", false, text("x|-1")},
	{"binary string", false, text("\x00\xff\r\n$-1\r\n")},
	{"number", false, text("12")},
	{"float", false, text("0.5")},
	{"HyperLogLog", false, func(string, *rand.Rand) []any { return []any{"PFADD", "a", "b"} }},
	{"bitmap", false, func(string, *rand.Rand) []any { return []any{"SETBIT", 100, 1} }},
}

// expiry is when a foreign key expires.
type expiry struct {
	name    string
	command []any // nil means never
}

const (
	never     = "no TTL"
	soon      = "a short TTL"
	centuries = "a TTL of centuries"
)

var expiries = []expiry{
	{never, nil},
	{soon, []any{"PEXPIRE", 300}},
	{centuries, []any{"EXPIRE", int64(9999999999)}},
	{centuries, []any{"EXPIRE", int64(9223370000000000)}},
}

// plant puts a foreign key in the place of whatever is there.
func (k kind) plant(c *tenant, i int, key string, e expiry, d *rand.Rand) {
	command := k.write(c.w.payload, d)
	_, _ = c.do(i, "DEL", key)
	_, _ = c.do(i, command[0].(string), append([]any{key}, command[1:]...)...)
	if e.command != nil {
		_, _ = c.do(i, e.command[0].(string), key, e.command[1])
	}
}

// Every kind of foreign key, with every TTL, for every Locker, while nothing else happens.
func TestTenants_NoForeignKeyIsTakenForAnythingElse(t *testing.T) {
	w := newWorld(t, 1)
	for i := range size {
		w.beat(i)
	}
	work := make(chan func(d *rand.Rand, c *tenant))
	for i := range uint64(16) {
		d, c := w.dice(i), w.newTenant()
		w.workers.Go(func() {
			for check := range work {
				check(d, c)
			}
		})
	}
	for _, m := range w.members {
		for _, k := range kinds {
			for _, e := range expiries {
				work <- func(d *rand.Rand, c *tenant) { w.onForeignKey(d, m, c, k, e, false) }
				if m.fenced {
					work <- func(d *rand.Rand, c *tenant) { w.onForeignKey(d, m, c, k, e, true) }
				}
			}
		}
	}
	close(work)
	w.workers.Wait()
	w.end()
}

// onForeign checks what becomes of a foreign key on the servers that are not in trouble.
func (w *world) onForeign(d *rand.Rand, m *member, c *tenant) {
	if !w.weather.Load().fair() {
		<-time.After(20 * time.Millisecond)
		return
	}
	w.onForeignKey(d, m, c, kinds[d.IntN(len(kinds))], expiries[d.IntN(len(expiries))], m.fenced && d.IntN(2) == 0)
}

// onForeignKey plants a foreign key under a name or its counter on every server, checks what the calls on it say, that the
// key stays as it is, and that the name is served once the key is gone.
func (w *world) onForeignKey(d *rand.Rand, m *member, c *tenant, k kind, e expiry, counter bool) {
	weather := w.weather.Load()
	name := fmt.Sprintf("foreign-%s-%d", m.name, w.planted.Add(1))
	key, check := prefix+name, w.checkName
	if counter {
		key, check = "{"+prefix+name+"}:fence", w.checkCounter
	}
	var spared []int
	for i := range size {
		if weather.spared(i) {
			spared = append(spared, i)
			k.plant(c, i, key, e, d)
		}
	}
	before := c.dumps(spared, key)
	forEver, begin := false, time.Now()
	problem := check(m, name, k, e.name, spared)
	after := c.dumps(spared, key)
	if problem == "" && e.name != soon && k.data && before != after {
		problem = "the data has been changed"
	}
	for _, i := range spared {
		_, _ = c.do(i, "DEL", key)
	}
	if problem == "" {
		if err := w.lockAndUnlock(bound, m, name); err != nil {
			problem, forEver = fmt.Sprintf("is not served when the key is gone: %v", err), time.Since(begin) > bound
		}
	}
	for _, i := range spared {
		_, _ = c.do(i, "DEL", key)
	}
	if (weather != w.weather.Load() || w.ctx.Err() != nil || w.stalled(begin)) && !forEver {
		return
	}
	w.served.Add(1)
	if problem != "" {
		w.failed("%s, %s with %s at %s: %s", m.name, k.name, e.name, key, problem)
	}
}

// dumps returns what the servers hold under a key.
func (c *tenant) dumps(servers []int, key string) (all string) {
	for _, i := range servers {
		text, _ := redis.String(c.do(i, "DUMP", key))
		all += text
	}
	return all
}

// lockAndUnlock waits for a lock for a time, and returns why it does not get it. If it does, a bare majority may hold it, some
// of which is in trouble: Unlock may fail.
func (w *world) lockAndUnlock(d time.Duration, m *member, name string) error {
	ctx, cancel := context.WithTimeout(w.ctx, d)
	defer cancel()
	lock, err := m.locker.Lock(ctx, name)
	if err == nil {
		w.decent("Unlock", lock.Unlock(context.Background()))
	}
	return err
}

// checkName checks what the calls on a name say that holds a foreign key. It returns what is wrong first.
func (w *world) checkName(m *member, name string, k kind, expiry string, spared []int) (problem string) {
	ctx := context.Background()
	wrong := func(format string, args ...any) {
		if problem == "" {
			problem = fmt.Sprintf(format, args...)
		}
	}
	check := func(call string, err error, want ...error) {
		for _, e := range want {
			if !errors.Is(err, e) {
				wrong("%s is not %q: %v", call, e, err)
			}
		}
		if errors.Is(err, nodeerr.ErrProtocol) {
			wrong("%s: an error of the protocol: %v", call, err)
		}
	}
	if expiry == soon {
		if err := w.lockAndUnlock(bound, m, name); err != nil {
			wrong("Lock: %v", err)
		}
		return problem
	}
	_, tried := m.locker.TryLock(ctx, name)
	_, attached := m.locker.Attach(ctx, name, "another token")
	check("Attach", attached, redlock.ErrNotHeld)
	state, inspected := m.locker.Inspect(ctx, name)
	if inspected != nil {
		state.Nodes = make([]redlock.NodeState, size)
		wrong("Inspect: %v", inspected)
	}
	switch {
	case k.data && expiry == centuries:
		check("TryLock", tried, redlock.ErrTaken)
		check("Lock", w.lockAndUnlock(700*time.Millisecond, m, name), context.DeadlineExceeded, redlock.ErrTaken)
	case k.data:
		for call, err := range map[string]error{"TryLock": tried, "Lock": w.lockAndUnlock(3*stall, m, name)} {
			// Beside a node in trouble it may not be the data alone that prevents a majority: the node refuses its service, or still
			// has the key of the call before.
			if disturbed := len(spared) < size; !disturbed || !errors.Is(err, redlock.ErrNoQuorum) && !errors.Is(err, redlock.ErrTaken) {
				check(call, err, redlock.ErrForeign)
			}
		}
		_, err := m.locker.ForceUnlock(ctx, name)
		check("ForceUnlock", err, redlock.ErrForeign)
	case m.heals && expiry == never:
		if err := w.lockAndUnlock(bound, m, name); err != nil {
			wrong("Lock does not heal: %v", err)
		}
		return problem
	default:
		reason := map[string]error{never: nodeerr.ErrNoExpiry, centuries: redlock.ErrTaken}[expiry]
		check("TryLock", tried, redlock.ErrTaken, reason)
		check("Lock", w.lockAndUnlock(700*time.Millisecond, m, name), context.DeadlineExceeded, redlock.ErrTaken, reason)
		if _, n := m.tallies.of(name); n > 200 {
			wrong("Lock has made %d rounds in 0.7 s", n)
		}
		removed, err := m.locker.ForceUnlock(ctx, name)
		lost := func(h redlock.Holder) bool { return h.Nodes > size/2 }
		if err != nil || !slices.ContainsFunc(removed, lost) {
			wrong("ForceUnlock returns %+v: %v", removed, err)
		}
	}
	for _, i := range spared {
		n := state.Nodes[i]
		switch {
		case k.data && !errors.Is(n.Err, nodeerr.ErrForeign),
			!k.data && n.Err != nil,
			!k.data && expiry == never && n.TTL != redlock.NoLimit,
			!k.data && expiry == centuries && n.TTL < 24*time.Hour:
			wrong("Inspect says %+v", n)
		}
	}
	return problem
}

// checkCounter checks what TryLock says if the counter of the name is a foreign key.
func (w *world) checkCounter(m *member, name string, k kind, _ string, _ []int) string {
	lock, err := m.locker.TryLock(context.Background(), name)
	switch {
	case err == nil:
		if err := lock.Unlock(context.Background()); err != nil {
			return fmt.Sprintf("Unlock: %v", err)
		}
	case errors.Is(err, nodeerr.ErrProtocol):
		return fmt.Sprintf("TryLock: an error of the protocol: %v", err)
	case !errors.Is(err, redlock.ErrNoQuorum) && !errors.Is(err, redlock.ErrForeign): // other nodes may be disturbed
		return fmt.Sprintf("TryLock: %v", err)
	}
	return ""
}
