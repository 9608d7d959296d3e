package redlock

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/defaults"
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

// Option is a setting of a Locker. Each LockOption is one, and for [Open] each option of package pool.
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
		lock:     request{Want: engine.Want{TTL: defaults.TTL}, maxWait: NoLimit, maxOutage: NoLimit},
		maxTTL:   24 * time.Hour,
		maxTTLBy: "WithMaxTTL",
	}
	for _, opt := range opts {
		switch opt := opt.(type) {
		case nil:
			return c, invalid("nil option")
		case pool.Option:
			c.pool = append(c.pool, opt)
		case token.Self:
			c.settings.Self = string(opt)
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

// WithMaxTTL sets the longest TTL of a lock: 24 h by default, at least 1 ms. A shorter [pool.WithRestartGuard] limits
// it too.
func WithMaxTTL(ttl time.Duration) Option {
	return option(func(c *config) { c.maxTTL = ttl })
}

// WithDrift sets the allowance for clocks that run at different rates: factor x TTL + floor is subtracted from each
// validity. The default is 0.01 and 2 ms. factor is from 0 to 0.5, floor at least 0. Drift and Grace must leave more
// than a third of each TTL.
func WithDrift(factor float64, floor time.Duration) Option {
	return option(func(c *config) { c.settings.Drift = quorum.Drift{Factor: factor, Floor: floor} })
}

// WithKeyPrefix sets the text before the name in the Redis key; "" by default. One that nothing else uses, such as
// lock:, keeps locks and data apart. It has at most 512 bytes and no control characters.
func WithKeyPrefix(prefix string) Option {
	return option(func(c *config) { c.prefix = prefix })
}

// WithBackoff sets the pauses of Lock between rounds if it cannot know when the lock becomes free. They are random,
// from a quarter to the whole of a time that doubles from first (2 ms) to most (200 ms), above zero. Choose first well
// above the round trip.
func WithBackoff(first, most time.Duration) Option {
	return option(func(c *config) { c.settings.Pace.First, c.settings.Pace.Most = first, most })
}

// WithHeal deletes a key without a TTL, as of SETNX, that Lock or TryLock saw unchanged for after, and logs that.
// Choose it far above any hold: without pushes, a key set again to the same value looks unchanged. The default is 0,
// never, else at least 1 ms. It needs [WithKeyPrefix], a prefix that no data has.
func WithHeal(after time.Duration) Option {
	return option(func(c *config) { c.settings.Pace.Heal = after })
}

// WithLocalHandoff lets Unlock hand the lock off in memory to a call that waits in the same Locker, for names that many
// goroutines want. It does so for max after the nodes granted the lock, so other processes wait longer by max. The
// default is 0, never, and the most a quarter of the TTL
// (https://github.com/quorumlock/quorumlock/blob/main/docs/recipes.md).
func WithLocalHandoff(max time.Duration) Option {
	return option(func(c *config) { c.settings.Pace.Handoff = max })
}

// WithFencing gives each lock a number, [Lock.Fence], by which the resource can reject the writes of a paused holder:
// see package fence. It is off by default. Every Locker that takes the lock should use it. A second round trip is
// needed when nodes' counters differ, as after one was away.
func WithFencing() Option {
	return option(func(c *config) { c.settings.Fencing = true })
}

// WithFenceTTL sets how long nodes keep the counter of a name after its last lock: two hours by default, at least a
// minute, and above the largest difference between the nodes' clocks by 3 s plus twice the node timeout. All Lockers of
// a name need the option.
func WithFenceTTL(d time.Duration) Option {
	return option(func(c *config) { c.settings.Keep = d })
}

// WithLogger sets the logger. The default is [slog.Default], from Warn on; slog.DiscardHandler turns the log off. nil
// is [ErrInvalid]. One cause is one line. A Locker writes at most 10 lines of Warn a minute, 10 of Info, and then how
// many more. No line has a token. All lines: https://github.com/quorumlock/quorumlock/blob/main/docs/telemetry.md.
func WithLogger(logger *slog.Logger) Option {
	return option(func(c *config) { c.logger, c.noLogger = logger, logger == nil })
}

// WithObserver notifies an [event.Observer] of groups of events. Without groups its method Groups names them, or they
// are the groups of package event. The option adds up. A nil Observer is none. A wrong group is [ErrInvalid].
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

// WithClock sets the clock of leases, for tests of this library; programs use package redlocktest. The default is
// [clock.System]; nil is [ErrInvalid].
func WithClock(lease clock.Clock) Option {
	return option(func(c *config) { c.settings.Clock = lease })
}
