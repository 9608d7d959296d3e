package node_test

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/wire"
)

func newAcquire(key, token string, ttl time.Duration) *wire.Command {
	c := new(wire.Command)
	form.Exclusive{}.Acquire(c, form.ID{Key: key, Token: token}, form.Ask{TTL: ttl})
	return c
}

func newExtend(key, token string, ttl time.Duration) *wire.Command {
	c := new(wire.Command)
	form.Exclusive{}.Extend(c, form.ID{Key: key, Token: token}, ttl)
	return c
}

func newRelease(key, token string, redeliver time.Duration) *wire.Command {
	c := new(wire.Command)
	form.Exclusive{}.Release(c, form.ID{Key: key, Token: token}, redeliver)
	return c
}

func newDelete(key, value string) *wire.Command {
	c := new(wire.Command)
	form.Exclusive{}.Remove(c, key, form.Observation{Value: value})
	return c
}

// counted is what an acquire with fencing asks of the counter.
type counted struct {
	Keep         time.Duration
	Now          uint64
	Advance      bool
	Floor, Block uint64
}

func newAcquireFenced(key, token string, ttl time.Duration, a counted) *wire.Command {
	c, f := new(wire.Command), form.Fenced{Keep: a.Keep}
	f.Acquire(c, form.ID{Key: key, Token: token}, form.Ask{TTL: ttl, Time: a.Now, Advance: a.Advance, Floor: a.Floor, Block: a.Block})
	return c
}

func newRaise(key, token string, granted, number uint64) *wire.Command {
	c := new(wire.Command)
	new(form.Fenced).Raise(c, form.ID{Key: key, Token: token}, granted, number)
	return c
}

func newExtendFenced(key, token string, number uint64, ttl, keep time.Duration) *wire.Command {
	c, f := new(wire.Command), form.Fenced{Keep: keep}
	f.Extend(c, form.ID{Key: key, Token: token, Number: number}, ttl)
	return c
}

func newReleaseFenced(key, token string, number uint64, redeliver time.Duration) *wire.Command {
	c := new(wire.Command)
	new(form.Fenced).Release(c, form.ID{Key: key, Token: token, Number: number}, redeliver)
	return c
}

func newDeleteFenced(key, token string, number uint64) *wire.Command {
	c := new(wire.Command)
	new(form.Fenced).Remove(c, key, form.Observation{Token: token, Fence: number})
	return c
}

// newAcquireAll takes the locks of keys that have one token.
func newAcquireAll(token string, ttl time.Duration, keys ...string) *wire.Command {
	c := new(wire.Command)
	form.Exclusive{}.AcquireAll(c, ids(token, keys), slices.Repeat([]form.Ask{{TTL: ttl}}, len(keys)))
	return c
}

// newAcquireAllFenced does the same with fencing. a is what each of them asks of its counter.
func newAcquireAllFenced(token string, ttl time.Duration, a counted, keys ...string) *wire.Command {
	return newAcquireAllCounted(token, ttl, slices.Repeat([]counted{a}, len(keys)), keys...)
}

// newAcquireAllCounted has each key ask its counter for something else. Keep and Now are those of the first.
func newAcquireAllCounted(token string, ttl time.Duration, each []counted, keys ...string) *wire.Command {
	c, f, asks := new(wire.Command), form.Fenced{Keep: each[0].Keep}, make([]form.Ask, len(keys))
	for i, a := range each {
		asks[i] = form.Ask{TTL: ttl, Time: a.Now, Advance: a.Advance, Floor: a.Floor}
	}
	f.AcquireAll(c, ids(token, keys), asks)
	return c
}

func ids(token string, keys []string) []form.ID {
	all := make([]form.ID, len(keys))
	for i, key := range keys {
		all[i] = form.ID{Key: key, Token: token}
	}
	return all
}
