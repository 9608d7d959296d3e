package redlock

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool"
)

const (
	defaultTTL        = 10 * time.Second
	defaultMaxTTL     = 24 * time.Hour
	defaultFactor     = 0.01
	defaultFloor      = 2 * time.Millisecond
	defaultMinBackoff = 2 * time.Millisecond
	defaultMaxBackoff = 200 * time.Millisecond
	minTTL            = time.Millisecond
	defaultKeepFence  = pool.DefaultKeep
	minKeepFence      = time.Minute
)

// Option changes how a Locker works. An option that does not fit is reported by [New].
type Option interface{ apply(*config) error }

type config struct {
	ttl        time.Duration
	maxTTL     time.Duration
	maxTTLBy   string // what says so
	drift      quorum.Drift
	prefix     string
	minBackoff time.Duration
	maxBackoff time.Duration
	healAfter  time.Duration
	fencing    bool
	keepFence  time.Duration
	logger     *slog.Logger
	observer   Observer
	clock      clock.Clock
	token      func() (string, error) // nil: see token.go
	wall       func() time.Time       // for the first reckoning of the time that counters have
}

type option func(*config) error

func (f option) apply(c *config) error { return f(c) }

func newConfig(opts []Option) (config, error) {
	c := config{
		ttl:        defaultTTL,
		maxTTL:     defaultMaxTTL,
		maxTTLBy:   "WithMaxTTL",
		drift:      quorum.Drift{Factor: defaultFactor, Floor: defaultFloor},
		minBackoff: defaultMinBackoff,
		maxBackoff: defaultMaxBackoff,
		keepFence:  defaultKeepFence,
		logger:     slog.New(slog.DiscardHandler),
		wall:       time.Now,
	}
	for _, opt := range opts {
		if opt == nil {
			return c, errors.New("redlock: nil option")
		}
		if err := opt.apply(&c); err != nil {
			return c, err
		}
	}
	if c.clock == nil {
		c.clock = clock.System()
	}
	return c, nil
}

// WithTTL sets how long locks live unless the call says otherwise. 10 s by default;
// whole milliseconds, the rest is cut off. From 1 ms, and so long that drift leaves
// something of it ([WithDrift]), to 24 h ([WithMaxTTL]).
func WithTTL(ttl time.Duration) Option {
	return option(func(c *config) error {
		c.ttl = ttl
		return nil
	})
}

// WithMaxTTL sets the longest TTL that is accepted. 24 h by default: a lock whose
// holder died stays for its whole TTL, so that a longer one is more likely a mistake.
// From 1 ms. Where nodes have a restart guard that is shorter, that is the limit ([pool.WithRestartGuard]).
func WithMaxTTL(ttl time.Duration) Option {
	return option(func(c *config) error {
		if ttl < minTTL {
			return fmt.Errorf("redlock: WithMaxTTL(%s): must be at least %s", ttl, minTTL)
		}
		c.maxTTL = ttl
		return nil
	})
}

// WithDrift sets the allowance for clocks that run at different rates: factor x TTL
// + floor is taken off the validity of each lock. 0.01 and 2 ms by default. factor is
// from 0 to below 1, floor from 0; both 0 allow for nothing.
func WithDrift(factor float64, floor time.Duration) Option {
	return option(func(c *config) error {
		if !(factor >= 0 && factor < 1) || floor < 0 {
			return fmt.Errorf("redlock: WithDrift(%v, %s): the factor must be from 0 to below 1, the floor from 0", factor, floor)
		}
		c.drift = quorum.Drift{Factor: factor, Floor: floor}
		return nil
	})
}

// WithKeyPrefix sets what is put in front of a lock's name to make its Redis key.
// Nothing by default. Up to 512 bytes, no control characters.
func WithKeyPrefix(prefix string) Option {
	return option(func(c *config) error {
		if err := checkText("key prefix", prefix); err != nil {
			return err
		}
		c.prefix = prefix
		return nil
	})
}

// WithBackoff sets how long Lock pauses between rounds where nothing tells it when to go
// again: contenders took the nodes from each other, too few nodes answer, or the servers do not
// announce changes. It is at random between a quarter and the whole of a time that doubles from
// first to most. 2 ms and 200 ms by default. Both above zero, first not above most. Round trips
// should be short against first.
func WithBackoff(first, most time.Duration) Option {
	return option(func(c *config) error {
		if first <= 0 || most < first {
			return fmt.Errorf("redlock: WithBackoff(%s, %s): must be above zero, the first not above the second", first, most)
		}
		c.minBackoff, c.maxBackoff = first, most
		return nil
	})
}

// WithHeal lets Lock take over a key that somebody left without any TTL, as a SETNX does whose EXPIRE
// never came: once it was seen unchanged for after, it is deleted, and logged at level Warn. Such a
// key may belong to a client that means it, and where servers do not announce changes, one that was deleted and set to the
// same value again looks unchanged. 0, the default: never, a key like that stays taken
// ([ErrNoExpiry]). Else from 1 ms, and far above the time that anybody may hold it.
func WithHeal(after time.Duration) Option {
	return option(func(c *config) error {
		if after != 0 && after < minTTL {
			return fmt.Errorf("redlock: WithHeal(%s): must be 0 or at least %s", after, minTTL)
		}
		c.healAfter = after
		return nil
	})
}

// WithFencing gives each lock a fencing token, [Lock.Fence]: what is protected can refuse a holder that was paused
// and comes late, see package redlock/fence. Off by default. All who take a lock should have it on: between two holders with
// fencing others do not count.
//
// It costs no round trip while the nodes' counters are in step, and one more where they are not: in the first round after a node was
// away, and now and then as long as the clock of a node is more than a second off those of the others. A call may take up to twice the node
// timeout then. The counter of a name is the key {name}:fence, so that no lock should be called like that.
func WithFencing() Option {
	return option(func(c *config) error {
		c.fencing = true
		return nil
	})
}

// WithFenceTTL sets for how long the nodes keep the counter of a name that fencing tokens come from, after the end of a lock:
// 24 h by default, at least a minute. It is a small key per name and node. After a counter has gone the tokens go on from
// the clocks of the nodes, so it should be far above what these could be off by.
func WithFenceTTL(d time.Duration) Option {
	return option(func(c *config) error {
		if d < minKeepFence {
			return fmt.Errorf("redlock: WithFenceTTL(%s): must be at least %s", d, minKeepFence)
		}
		c.keepFence = d
		return nil
	})
}

// WithLogger sets where the Locker logs to: acquires that were refused at level
// Debug, extends and releases that were, ForceUnlock and healed keys at level Warn. Tokens are not logged. Nothing is logged by
// default.
func WithLogger(logger *slog.Logger) Option {
	return option(func(c *config) error {
		if logger == nil {
			return errors.New("redlock: WithLogger(nil)")
		}
		c.logger = logger
		return nil
	})
}

// WithObserver sets who is told of every vote and verdict. Nobody by default.
func WithObserver(observer Observer) Option {
	return option(func(c *config) error {
		if observer == nil {
			return errors.New("redlock: WithObserver(nil)")
		}
		c.observer = observer
		return nil
	})
}

// WithClock sets the clock that leases are measured on. [clock.System] by default;
// anything else is for tests.
func WithClock(lease clock.Clock) Option {
	return option(func(c *config) error {
		if lease == nil {
			return errors.New("redlock: WithClock(nil)")
		}
		c.clock = lease
		return nil
	})
}

// WithTokenSource sets where tokens come from, for tests. By default 20 random bytes
// as text. A source that gives the same token twice makes locks unsafe.
func WithTokenSource(source func() (string, error)) Option {
	return option(func(c *config) error {
		if source == nil {
			return errors.New("redlock: WithTokenSource(nil)")
		}
		c.token = source
		return nil
	})
}
