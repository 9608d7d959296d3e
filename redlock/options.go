package redlock

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unicode"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

const (
	defaultTTL        = 10 * time.Second
	defaultMaxTTL     = 24 * time.Hour
	defaultFactor     = 0.01
	defaultFloor      = 2 * time.Millisecond
	defaultMinBackoff = 5 * time.Millisecond
	defaultMaxBackoff = 200 * time.Millisecond
	minTTL            = time.Millisecond
	maxNameBytes      = 512
	tokenBytes        = 20
)

// Option changes how a Locker works. An option that does not fit is reported by [New].
type Option interface{ apply(*config) error }

// LockOption changes one lock. One that does not fit is reported by the call.
type LockOption interface{ applyLock(*request) error }

type config struct {
	ttl        time.Duration
	maxTTL     time.Duration
	drift      quorum.Drift
	prefix     string
	minBackoff time.Duration
	maxBackoff time.Duration
	logger     *slog.Logger
	observer   Observer
	clock      clock.Clock
	token      func() (string, error)
}

// request is what one call asks for.
type request struct {
	name string
	key  string
	ttl  time.Duration
}

type option func(*config) error

func (f option) apply(c *config) error { return f(c) }

type lockOption func(*request) error

func (f lockOption) applyLock(r *request) error { return f(r) }

func newConfig(opts []Option) (config, error) {
	c := config{
		ttl:        defaultTTL,
		maxTTL:     defaultMaxTTL,
		drift:      quorum.Drift{Factor: defaultFactor, Floor: defaultFloor},
		minBackoff: defaultMinBackoff,
		maxBackoff: defaultMaxBackoff,
		logger:     slog.New(slog.DiscardHandler),
		token:      randomToken,
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
	_, err := c.checkTTL(c.ttl)
	return c, err
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
// From 1 ms.
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

// WithBackoff sets how long Lock pauses between rounds: at random between half and
// the whole of a time that doubles from first to most. 5 ms and 200 ms by default. Both
// above zero, first not above most. Round trips should be short against first, since
// contenders that lost to each other come back after about that time.
func WithBackoff(first, most time.Duration) Option {
	return option(func(c *config) error {
		if first <= 0 || most < first {
			return fmt.Errorf("redlock: WithBackoff(%s, %s): must be above zero, the first not above the second", first, most)
		}
		c.minBackoff, c.maxBackoff = first, most
		return nil
	})
}

// WithLogger sets where the Locker logs to: acquires that were refused at level
// Debug, extends and releases at level Warn. Tokens are not logged. Nothing is logged by
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

// TTL sets how long this lock lives, see [WithTTL].
func TTL(ttl time.Duration) LockOption {
	return lockOption(func(r *request) error {
		r.ttl = ttl
		return nil
	})
}

// request checks a call's arguments before anything is sent.
func (c *config) request(name string, opts []LockOption) (request, error) {
	r := request{name: name, key: c.prefix + name, ttl: c.ttl}
	if name == "" {
		return r, errors.New("redlock: the name is empty")
	}
	if err := checkText("name", name); err != nil {
		return r, err
	}
	r, err := r.with(opts)
	if err != nil {
		return r, err
	}
	r.ttl, err = c.checkTTL(r.ttl)
	return r, err
}

// with returns the request with options applied.
func (r request) with(opts []LockOption) (request, error) {
	if len(opts) == 0 {
		return r, nil
	}
	changed := r // on the heap, as the options are given its address
	for _, opt := range opts {
		if opt == nil {
			return r, errors.New("redlock: nil lock option")
		}
		if err := opt.applyLock(&changed); err != nil {
			return r, err
		}
	}
	return changed, nil
}

// checkTTL returns a TTL as it goes over the wire, in whole milliseconds.
func (c *config) checkTTL(ttl time.Duration) (time.Duration, error) {
	whole := ttl.Truncate(time.Millisecond)
	switch {
	case ttl < minTTL:
		return 0, fmt.Errorf("redlock: TTL %s: must be at least %s", ttl, minTTL)
	case ttl > c.maxTTL:
		return 0, fmt.Errorf("redlock: TTL %s: must be at most %s (WithMaxTTL allows more)", ttl, c.maxTTL)
	case quorum.Drift{Factor: c.drift.Factor}.Of(whole) >= whole-c.drift.Floor: // a difference cannot overflow
		return 0, fmt.Errorf("redlock: TTL %s: the allowance for clock drift, %v x TTL + %s, leaves nothing of it (WithDrift)",
			ttl, c.drift.Factor, c.drift.Floor)
	}
	return whole, nil
}

// checkText refuses what Redis would take as part of a key and people would regret.
func checkText(what, text string) error {
	if len(text) > maxNameBytes {
		return fmt.Errorf("redlock: the %s %.32q... has %d bytes: at most %d, since every command carries it", what, text, len(text), maxNameBytes)
	}
	for i, r := range text {
		if unicode.IsControl(r) {
			return fmt.Errorf("redlock: the %s %q has the control character %q at byte %d: logs and tools would show another name", what, text, r, i)
		}
	}
	return nil
}

func randomToken() (string, error) {
	var b [tokenBytes]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}
