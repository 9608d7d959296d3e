package redlock

import (
	"crypto/sha1" //nolint:gosec // it names scripts
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// hashed is a lock that is kept in the field owner of a hash. A further kind of lock is a form and its scripts: nothing else in here
// knows how servers keep a lock.
type hashed struct{}

func script(body string) *wire.Script {
	source := "local key, token, ttl = KEYS[1], ARGV[1], ARGV[2]\nlocal held = redis.pcall('HGET', key, 'owner')\n" +
		"if type(held) == 'table' then return held end\n" + body
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
	return &wire.Script{Source: source, Hash: hex.EncodeToString(sum[:])}
}

var (
	hashedAcquire = script(`if held then return false end
redis.call('HSET', key, 'owner', token)
redis.call('PEXPIRE', key, ttl)
return redis.status_reply('OK')`)
	hashedExtend = script(`if held and held ~= token then return -1 end
if not held then redis.call('HSET', key, 'owner', token) end
if redis.call('PTTL', key) < tonumber(ttl) then redis.call('PEXPIRE', key, ttl) end
redis.call('HGET', key, 'owner')
return held and 1 or 2`)
	hashedRelease = script(`if held == token then return redis.call('DEL', key) end
return held and (redis.call('PTTL', key) == -1 and -2 or -1) or 0`)
	hashedHeal = script(`if held == token and redis.call('PTTL', key) == -1 then return redis.call('DEL', key) end
return held and -1 or 0`)
	hashedObserve = script(`return held and {held, redis.call('PTTL', key)}`)
)

func parseHashed(v *wire.Value) wire.Reply {
	switch {
	case v.IsOK(), v.Kind == ':' && v.Num == 1:
		return wire.Reply{Answer: quorum.Yes}
	case v.Kind == '*' && len(v.Items) == 2:
		return wire.Reply{Answer: quorum.Yes, Value: string(v.Items[0].Text), TTL: wire.TTL(v.Items[1].Num)}
	case v.Kind != ':' && v.Kind != '_':
		return wire.Unexpected(v)
	}
	return map[int64]wire.Reply{
		0:  {Answer: quorum.No, Err: nodeerr.ErrAbsent},
		2:  {Answer: quorum.Recreated, Err: nodeerr.ErrRecreated},
		-1: {Answer: quorum.No, Err: nodeerr.ErrHeld},
		-2: {Answer: quorum.No, Err: fmt.Errorf("%w: %w", nodeerr.ErrHeld, nodeerr.ErrNoExpiry)},
	}[v.Num]
}

func inMillis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func (hashed) Acquire(c *wire.Command, id form.ID, a form.Ask) {
	*c = wire.Command{Class: wire.Vote, Script: hashedAcquire, Key: id.Key, Token: id.Token}
	c.Parse = func(v *wire.Value) wire.Reply {
		if v.Kind == '_' {
			return wire.Reply{Answer: quorum.No, Err: nodeerr.ErrHeld}
		}
		return parseHashed(v)
	}
	c.With(id.Token, inMillis(a.TTL))
}

func (hashed) Extend(c *wire.Command, id form.ID, ttl time.Duration) {
	*c = wire.Command{Class: wire.Extend, Script: hashedExtend, Key: id.Key, Token: id.Token, Parse: parseHashed}
	c.With(id.Token, inMillis(ttl))
}

func (f hashed) Release(c *wire.Command, id form.ID, redeliver time.Duration) {
	f.Remove(c, id.Key, form.Observation{Token: id.Token})
	c.Class, c.Redeliver = wire.CleanUp, redeliver
}

func (hashed) Remove(c *wire.Command, key string, seen form.Observation) {
	*c = wire.Command{Class: wire.Remove, Script: hashedRelease, Key: key, Token: seen.Token, Parse: parseHashed}
	c.With(seen.Token)
}

func (hashed) Observe(key string) *wire.Command {
	return &wire.Command{Script: hashedObserve, Key: key, Parse: parseHashed, BySource: true, Tracked: true}
}

func (f hashed) Look(id form.ID) *wire.Command { return f.Observe(id.Key) }

func (hashed) ObserveMaster(key string) *wire.Command {
	return &wire.Command{Script: hashedObserve, Key: key, Parse: parseHashed, BySource: true}
}

func (hashed) Heal(key, value string) *wire.Command {
	c := &wire.Command{Class: wire.Heal, Script: hashedHeal, Key: key, Token: value, Parse: parseHashed}
	return c.With(value)
}

func (hashed) Shows(r *wire.Reply) form.Observation {
	return form.Observation{Answer: r.Answer, Foreign: errors.Is(r.Err, nodeerr.ErrForeign), Value: r.Value, Token: r.Value, TTL: r.TTL}
}

func TestForm_AFurtherKindOfLockIsAFormAndItsScripts(t *testing.T) {
	t.Parallel()
	servers := testredis.Real(t, 3)
	locker := func() *Locker {
		nodes, err := pool.Open(testredis.URLs(servers))
		require.NoError(t, err)
		l, err := New(nodes, TTL(time.Minute), WithKeyPrefix("app:"), WithHeal(100*time.Millisecond), WithForm(hashed{}))
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, l.Close())
			for _, n := range nodes {
				require.NoError(t, n.Close())
			}
		})
		return l
	}
	first, second := locker(), locker()
	holds := func(token Token) (n int) {
		for _, s := range servers {
			if held, err := s.Do("HGET", "app:name", "owner"); err == nil && held != nil && Token(held.([]byte)) == token {
				n++
			}
		}
		return n
	}
	lock, err := first.TryLock(t.Context(), "name", RenewFor(NoLimit))
	require.NoError(t, err)
	require.GreaterOrEqual(t, holds(lock.Token()), 2)
	_, err = second.TryLock(t.Context(), "name")
	require.ErrorIs(t, err, ErrTaken)
	seen, err := second.Inspect(t.Context(), "name")
	require.NoError(t, err)
	require.Equal(t, VerdictHeld, seen.Verdict)
	require.Equal(t, lock.Token(), seen.Holders[0].Token)
	attached, err := second.Attach(t.Context(), "name", seen.Holders[0].Token)
	require.NoError(t, err)
	_, err = attached.Detach(t.Context())
	require.NoError(t, err)
	require.NoError(t, lock.Extend(t.Context(), time.Hour))
	require.Greater(t, lock.Remaining(), 50*time.Minute)

	next := make(chan *Lock, 1)
	go func() {
		lock, _ := second.Lock(t.Context(), "name")
		next <- lock
	}()
	require.Eventually(t, func() bool { return Sees(second, "app:name") }, time.Minute, time.Millisecond)
	require.NoError(t, lock.Unlock(t.Context()))
	lock = <-next // the release is pushed: the TTL is an hour
	require.NotNil(t, lock)
	require.GreaterOrEqual(t, holds(lock.Token()), 2)
	removed, err := first.ForceUnlock(t.Context(), "name")
	require.NoError(t, err)
	require.Equal(t, lock.Token(), removed[0].Token)
	require.ErrorIs(t, lock.Unlock(t.Context()), ErrNotHeld)

	for _, s := range servers { // a key without a TTL
		_, err := s.Do("HSET", "app:name", "owner", "somebody")
		require.NoError(t, err)
	}
	lock, err = first.Lock(t.Context(), "name")
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
	for _, s := range servers {
		_, err := s.Do("SET", "app:name", "data of another program")
		require.NoError(t, err)
	}
	_, err = first.Lock(t.Context(), "name")
	require.ErrorIs(t, err, ErrForeign)
}
