package redlock

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/sealed"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock/event"
)

const (
	minTTL = time.Millisecond
	// maxDrift is the greatest drift factor. It allows for a clock that runs twice as fast as another.
	maxDrift = 0.5
)

// Option is a setting of a Locker. [New] and [Open] return [ErrInvalid] for an option that is out of range. Each
// [LockOption] is an Option too. For Open so is each [pool.Option], such as pool.WithTimeout.
type Option interface{ LockerOption(sealed.Type) }

type config struct {
	settings engine.Config
	lock     request // the defaults of the locks
	maxTTL   time.Duration
	maxTTLBy string // the option that sets maxTTL
	prefix   string
	audience
	noLogger bool          // WithLogger was given nil
	noGroups []event.Group // the groups given to WithObserver that do not exist
	ofCalls  []string      // the options given that are for calls only
	pool     []pool.Option // for Open
}

type option func(*config)

func (option) LockerOption(sealed.Type) {}

func (f option) apply(c *config) { f(c) }

// newConfig applies options to the defaults, and checks the result.
func newConfig(opts []Option) (config, error) {
	c := config{
		settings: engine.Config{
			Rules: engine.Rules{
				Self: token.NewOwner(), Drift: quorum.Drift{Factor: 0.01, Floor: 2 * time.Millisecond}, Wall: time.Now,
				Pace: engine.Pace{
					First: 2 * time.Millisecond, Most: 200 * time.Millisecond,
					Random: func(below time.Duration) time.Duration { return rand.N(max(below, 1)) },
				},
			},
			Keep: engine.DefaultKeep, Clock: clock.System(),
		},
		lock:     request{Want: engine.Want{TTL: 10 * time.Second}, maxWait: NoLimit, maxOutage: NoLimit},
		maxTTL:   24 * time.Hour,
		maxTTLBy: "WithMaxTTL",
	}
	for _, opt := range opts {
		switch opt := opt.(type) {
		case nil:
			return c, invalid("nil option")
		case pool.Option:
			c.pool = append(c.pool, opt)
		case interface{ apply(*config) }:
			opt.apply(&c)
		}
	}
	return c, c.check()
}

// check returns an error for an option that is out of range. newLocker checks the defaults of locks, because their
// limits depend on the nodes too.
func (c *config) check() error {
	switch {
	case c.maxTTL < minTTL:
		return invalid("WithMaxTTL(%s): must be at least %s", c.maxTTL, minTTL)
	case !(c.settings.Drift.Factor >= 0 && c.settings.Drift.Factor <= maxDrift) || c.settings.Drift.Floor < 0:
		return invalid("WithDrift(%v, %s): the factor must be from 0 to %v, the floor from 0",
			c.settings.Drift.Factor, c.settings.Drift.Floor, maxDrift)
	case c.settings.Pace.First <= 0 || c.settings.Pace.Most < c.settings.Pace.First:
		return invalid("WithBackoff(%s, %s): must be above zero, the first not above the second",
			c.settings.Pace.First, c.settings.Pace.Most)
	case c.settings.Pace.Heal != 0 && c.settings.Pace.Heal < minTTL:
		return invalid("WithHeal(%s): must be 0 or at least %s", c.settings.Pace.Heal, minTTL)
	case c.settings.Pace.Heal != 0 && c.prefix == "":
		return invalid("WithHeal(%s): needs WithKeyPrefix, so that no key of a program's data can be a lock's",
			c.settings.Pace.Heal)
	case c.settings.Pace.Handoff < 0:
		return invalid("WithLocalHandoff(%s): must not be below zero", c.settings.Pace.Handoff)
	case c.settings.Pace.Handoff > max(0, c.lock.TTL/4):
		return invalid("WithLocalHandoff(%s): must be at most a quarter of the TTL, %s", c.settings.Pace.Handoff, c.lock.TTL)
	case c.settings.Keep < engine.MinKeep:
		return invalid("WithFenceTTL(%s): must be at least %s", c.settings.Keep, engine.MinKeep)
	case c.noLogger:
		return invalid("WithLogger(nil)")
	case len(c.ofCalls) > 0:
		return invalid("%s: an option of a call, not of a Locker", c.ofCalls[0])
	case len(c.noGroups) > 0:
		return invalid("WithObserver: there is no group of events %q", c.noGroups[0])
	case c.settings.Clock == nil:
		return invalid("WithClock(nil)")
	}
	return checkText("key prefix", c.prefix)
}

// WithMaxTTL sets the longest TTL that a lock may have, at least 1 ms. The default is 24 h. The lock of a holder that
// died stays for its whole TTL, so a longer TTL is more likely a mistake. If nodes have a shorter restart guard
// ([pool.WithRestartGuard]), that is the limit.
func WithMaxTTL(ttl time.Duration) Option {
	return option(func(c *config) { c.maxTTL = ttl })
}

// WithDrift sets the allowance for clocks that run at different rates: factor x TTL + floor is subtracted from the
// validity of each lock. The defaults are 0.01 and 2 ms. factor must be from 0 to 0.5, and floor at least 0; if both
// are 0, there is no allowance. The allowance must leave more than a third of each [TTL], because a lock is renewed
// after a third of its TTL.
func WithDrift(factor float64, floor time.Duration) Option {
	return option(func(c *config) { c.settings.Drift = quorum.Drift{Factor: factor, Floor: floor} })
}

// WithKeyPrefix sets the prefix of the Redis keys: the key of a lock is the prefix followed by the name. By default
// there is none, and the name itself is the key. Then it must not be the name of a program's data. A prefix that
// nothing else uses, such as lock:, makes sure of that. The prefix has at most 512 bytes and no control characters.
func WithKeyPrefix(prefix string) Option {
	return option(func(c *config) { c.prefix = prefix })
}

// WithBackoff sets how long Lock pauses between rounds if it cannot know when the lock becomes free. That is so if
// contenders took the nodes from each other, too few nodes answer, or the servers announce no changes. The pause is
// random, between a quarter and the whole of a time that doubles from first to most. The defaults are 2 ms and 200 ms.
// Both must be above zero, and first must not be above most. Choose first well above the round-trip time.
func WithBackoff(first, most time.Duration) Option {
	return option(func(c *config) { c.settings.Pace.First, c.settings.Pace.Most = first, most })
}

// WithHeal lets a Locker delete a key that has no TTL, for example one of a SETNX without EXPIRE. When the Locker has
// seen the key unchanged for the duration after, it deletes the key and logs that at level Warn. The default is 0,
// which means never: such a key stays taken ([nodeerr.ErrNoExpiry]). Any other value must be at least 1 ms. Choose it
// far above the time for which anybody may hold the lock. Without [WithKeyPrefix] the option is [ErrInvalid].
//
// Lock deletes such a key while it waits. TryLock deletes it too, as long as no call waits. The first call that finds
// the key unchanged for that time deletes it, and a later call gets the lock. Between calls the Locker remembers some
// thousand such keys. If a server announces changes, the time begins again there when the connection was lost, or when
// the server has dropped all keys.
//
// Such a key may belong to a client that has left out the TTL on purpose. On a server that does not announce changes, a
// key that was deleted and set to the same value again looks unchanged. A short string may also be a program's data. So
// choose a prefix that no data has. A value that cannot be a lock ([nodeerr.ErrForeign]) is never deleted.
func WithHeal(after time.Duration) Option {
	return option(func(c *config) { c.settings.Pace.Heal = after })
}

// WithLocalHandoff lets Unlock hand the lock off to the next call of Lock or Do that waits for it in the same Locker.
// That happens in memory: it asks no node, and takes some microseconds. The option is for a name that many goroutines
// of a program want, such as that of the one item on sale.
//
// A lock is handed off for max after the nodes granted it, or for a quarter of its validity if that is less. So the
// next holder gets it with about three quarters of its validity or more. After that the lock is released, and other
// processes have their turn first, even if the nodes have granted it again meanwhile. The default is 0, which means
// never. max must not be below zero, and not above a quarter of the Locker's [TTL]. Other processes wait longer, by
// max.
//
// A lock is also released, as without this option, if
//   - the waiter asked for a longer [TTL], other [Metadata], another [Grace], or a [RenewFor] that is shorter than the
//     lock may last;
//   - the lock was extended by more than its TTL ([Lock.Extend]);
//   - it came from [Locker.Attach], or it or the waiter has a [TokenSource];
//   - its block of fencing tokens is used up ([WithFencing]). While several calls wait, a round reserves a block: about
//     one number for every two microseconds that rounds take, and at most 4096. Each holder gets the next number.
//
// Each holder has a Lock of its own, and calls of an earlier holder on its Lock have no effect on it. [Lock.Token] is
// "", because later holders have the same token. [Lock.Detach] returns it. If the lock is lost, the Lock of the present
// holder ends. The nodes, and so [Locker.Inspect], know one holder: its token and its fencing token stand for the whole
// block.
func WithLocalHandoff(max time.Duration) Option {
	return option(func(c *config) { c.settings.Pace.Handoff = max })
}

// WithFencing gives each lock a fencing token, [Lock.Fence]. With it the protected resource can reject the writes of a
// holder that was paused for too long: see package redlock/fence. It is off by default. Every Locker that takes the
// lock should use it, because tokens are ordered only among holders that use fencing.
//
// It costs no round trip while the counters of the nodes agree, and one more if they do not. That happens in the first
// round after a node was away. It also happens occasionally while the clock of a node differs from the others by more
// than a second. Then a call may take up to twice the node timeout.
func WithFencing() Option {
	return option(func(c *config) { c.settings.Fencing = true })
}

// WithFenceTTL sets how long the nodes keep the counter of a name after the end of a lock. The default is two hours,
// and the minimum is a minute. When the counter has expired, fencing tokens continue from the clocks of the nodes. So d
// must be above the largest difference between these clocks, by at least 3 s plus twice the node timeout. The default
// leaves room for a clock that is wrong by an hour, as with daylight-saving time. All Lockers of a name need the
// option.
func WithFenceTTL(d time.Duration) Option {
	return option(func(c *config) { c.settings.Keep = d })
}

// WithLogger sets the logger. By default nothing is logged. A nil logger is [ErrInvalid]. Tokens and values are never
// logged.
//
//	level   one line for each
//	Warn    lock that was lost, or expired while it was held
//	        node that is down, or does not vote after its restart (pool.WithRestartGuard)
//	        call of ForceUnlock, with the holder's metadata
//	        key without a TTL that was deleted (WithHeal), or that Lock has seen unchanged for 10 s
//	        name under which data of another program, or a key without a TTL, was in the way of a majority when
//	        a call returned: once a minute, and for 1024 names at most
//	        name that Lock or Do have waited for, while the servers were the reason
//	        call that too few nodes answered: once a minute
//	        calls that wait for each other, because they took locks in different orders
//	Info    name that Lock or Do have waited for while others held the lock, with the holder's metadata and the
//	        locks that the call holds itself
//	        lock that was not renewed in time, and was released within its Grace
//	        node that is up again; release that too few nodes confirmed
//	Debug   connection that broke
//	        other round that was refused, with split=true if callers have taken the nodes from each other
//
// A wait is logged after 10 s, and then once a minute for each name while a call waits for it. If there are more than
// 1024 names in a minute, only the number of the others is logged. docs/telemetry.md says which calls are found to wait
// for each other.
//
// The handler runs beside the calls of the Locker, like an [event.Observer], so a slow handler delays no lock.
func WithLogger(logger *slog.Logger) Option {
	return option(func(c *config) { c.logger, c.noLogger = logger, logger == nil })
}

// WithObserver adds an [event.Observer], which is notified of the events of the given groups. Without groups it is
// notified of the groups that its method Groups returns, or of the groups of package event if it has none. A nil
// Observer, the default, means none. If the option is given several times, each Observer is notified, in that order. A
// group that does not exist is [ErrInvalid].
//
// Events that no Observer wants are not made, except for a few rare ones. If an Observer wants [event.Ends], a timer of
// the Locker notices the end of each lock.
func WithObserver(observer event.Observer, groups ...event.Group) Option {
	return option(func(c *config) {
		if own, has := observer.(interface{ Groups() []event.Group }); has && len(groups) == 0 {
			groups = own.Groups()
		}
		o := observing{Observer: observer}
		for _, group := range groups {
			bit, ok := groupBits[group]
			if !ok {
				c.noGroups = append(c.noGroups, group)
			}
			o.groups |= bit
		}
		if len(groups) == 0 {
			o.groups = groupCalls | groupEnds | groupNodes | groupKeys
		}
		if observer != nil {
			c.observers, c.wanted = append(c.observers, o), c.wanted|o.groups
		}
	})
}

// WithClock sets the clock that leases are measured on. The default is [clock.System]; any other clock is for tests.
// Programs test with package redlock/redlocktest, which sets it. A nil clock is [ErrInvalid]. The clock is asked under the mutex of a name, so it must not call the Locker or a Lock.
func WithClock(lease clock.Clock) Option {
	return option(func(c *config) { c.settings.Clock = lease })
}
