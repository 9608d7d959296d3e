package redlock_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

func TestWithKeyPrefix_IsPartOfTheKeyAndNotOfTheName(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(redlock.WithKeyPrefix("app:")), "name")
		c.eventuallyHeld("app:name", lock.Token())
		require.Equal(t, "name", lock.Name())
		require.Equal(t, 3, c.holding("name", ""))

		require.ErrorIs(t, errOf(c.locker().TryLock(t.Context(), "app:name")), redlock.ErrTaken, "the key is all that counts")
	})
}

func TestWithMaxTTL_AllowsALongerTTL(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		const week = 7 * 24 * time.Hour
		lock := c.everywhere(take(t, c.locker(redlock.TTL(week), redlock.WithMaxTTL(week)), "name"))
		require.Greater(t, lock.Remaining(), 6*24*time.Hour)
		c.each(func(i int) { require.Greater(t, c.ttl(i, "name"), 6*24*time.Hour) })
	})
}

func TestNew_RefusesWhatIsOutOfRangeWithItsValue(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	fencing, calls := redlock.WithFencing(), 0
	for want, opts := range map[string][]redlock.Option{
		"WithDrift(NaN, 0s)":                               {redlock.WithDrift(math.NaN(), 0)},
		"WithDrift(-0.01, 0s)":                             {redlock.WithDrift(-0.01, 0)},
		"WithDrift(1, 0s)":                                 {redlock.WithDrift(1, 0)},
		"WithDrift(0.999999, 0s): the factor must be fro":  {redlock.WithDrift(0.999999, 0)}, // 10 µs of 10 s are left
		"WithDrift(0.5000000000000001, 0s)":                {redlock.WithDrift(math.Nextafter(0.5, 1), 0)},
		"WithDrift(+Inf, 0s)":                              {redlock.WithDrift(math.Inf(1), 0)},
		"WithDrift(0, -1ns)":                               {redlock.WithDrift(0, -1)},
		"WithBackoff(0s, 1s)":                              {redlock.WithBackoff(0, time.Second)},
		"WithBackoff(-1s, 1s)":                             {redlock.WithBackoff(-time.Second, time.Second)},
		"WithBackoff(1s, 999ms)":                           {redlock.WithBackoff(time.Second, 999*time.Millisecond)},
		"WithMaxTTL(999µs)":                                {redlock.WithMaxTTL(999 * time.Microsecond)},
		"TTL 10s: must be at most 1s":                      {redlock.WithMaxTTL(time.Second)}, // the default is above it
		"WithHeal(1m0s): needs WithKeyPrefix":              {redlock.WithHeal(time.Minute)},   // or it could delete data
		"WithHeal(-1ns)":                                   {redlock.WithHeal(-1), prefixed},
		"WithHeal(999.999µs)":                              {redlock.WithHeal(time.Millisecond - 1), prefixed},
		"WithFenceTTL(0s)":                                 {fencing, redlock.WithFenceTTL(0)},
		"WithFenceTTL(-1h0m0s)":                            {fencing, redlock.WithFenceTTL(-time.Hour)},
		"WithFenceTTL(59.999999999s)":                      {fencing, redlock.WithFenceTTL(time.Minute - 1)},
		"WithLocalHandoff(-1ns): must not be below zero":   {redlock.WithLocalHandoff(-1)},
		"WithLocalHandoff(2.500000001s)":                   {redlock.WithLocalHandoff(2500*time.Millisecond + 1)},
		"must be at most a quarter of the TTL, 4s":         {redlock.TTL(4 * time.Second), redlock.WithLocalHandoff(2 * time.Second)},
		"WithLogger(nil)":                                  {redlock.WithLogger(nil)},
		"WithClock(nil)":                                   {redlock.WithClock(nil)},
		`WithObserver: there is no group of events "vote"`: {redlock.WithObserver(&recorder{}, event.Calls, "vote", event.Ends)},
		"no group of events \"\"":                          {redlock.WithObserver(nil, "")},
		"nil option":                                       {nil},
		"must leave more than a third of it (WithDrift)":   {redlock.TTL(time.Millisecond)},
		"the key prefix \"\\r\" has the control chara":     {redlock.WithKeyPrefix("\r")},
		"redlock: an option of package pool":               {pool.WithTimeout(time.Second)},
		// Defaults that no lock could have.
		"Grace(6s): must be":                     {redlock.Grace(6 * time.Second)},
		"Grace(-1ns)":                            {redlock.Grace(-1)},
		"leave more than a":                      {redlock.WithDrift(0.5, 0), redlock.Grace(4 * time.Second)},
		"Grace(5s)":                              {redlock.WithDrift(0.17, 0), redlock.Grace(5 * time.Second)},
		"RenewFor(-1ns): must not be below zero": {redlock.RenewFor(-1)},
		"MaxWait(-1ns)":                          {redlock.MaxWait(-1)},
		"MaxOutage(-1ns)":                        {redlock.MaxOutage(-1)},
		`Metadata("a|b")`:                        {redlock.Metadata("a|b")},
		// And those of a single call.
		"TTL 0s: must be at least 1ms":                                             {redlock.TTL(0)},
		"TTL -1s: must be at least 1ms":                                            {redlock.TTL(-time.Second)},
		"TTL -2562047h47m16.854775808s: must be at le":                             {redlock.TTL(math.MinInt64)},
		"TTL 999µs: must be at least 1ms":                                          {redlock.TTL(999 * time.Microsecond)}, // PX 0
		"TTL 998µs: must be at least 1ms":                                          {redlock.TTL(998 * time.Microsecond), redlock.WithDrift(0, 0)},
		"TTL 2ms: the allowance for clock drift, 0.01 x TTL + 2ms, must leave":     {redlock.TTL(2 * time.Millisecond)},
		"TTL 3.999ms: the allowance for clock drift, 0.01 x TTL + 2ms, must leave": {redlock.TTL(3999 * time.Microsecond)}, // cut to milliseconds
		"TTL 1m0s: the allowance for clock drift, 0 x TTL + 40s, must leave":       {redlock.TTL(time.Minute), redlock.WithDrift(0, 40*time.Second)},
		"TTL 1m0s: the allowance for clock drift, 0.5 x TTL + 10s, must leave":     {redlock.TTL(time.Minute), redlock.WithDrift(0.5, 10*time.Second)},
		"0.5 x TTL + 2562047h47m16.854775807s, must leave":                         {redlock.TTL(time.Minute), redlock.WithDrift(0.5, math.MaxInt64)},
		"0.5 x TTL + 1752000h0m0s, must leave":                                     {redlock.TTL(math.MaxInt64), redlock.WithMaxTTL(math.MaxInt64), redlock.WithDrift(0.5, 200*365*day)},
		"TTL 24h0m0.001s: must be at most 24h0m0s (WithMaxTTL)":                    {redlock.TTL(day + time.Millisecond)},
		"TTL 1m0.000000001s: must be at most 1m0s":                                 {redlock.TTL(time.Minute + 1), redlock.WithMaxTTL(time.Minute)},
	} {
		refused := func(err error) {
			t.Helper()
			require.ErrorContains(t, err, want)
			require.ErrorIs(t, err, redlock.ErrInvalid)
			require.True(t, strings.HasPrefix(err.Error(), "redlock: "), "%v", err)
		}
		locker, err := redlock.New(untouched(t), opts...)
		require.Nil(t, locker)
		refused(err)
		for _, standard := range []time.Duration{time.Minute, 200 * 365 * day} { // with which the call alone is wrong
			ttl, ofCall := opts[0].(redlock.LockOption)
			locker, err := redlock.New(untouched(t), append(slices.Clone(opts[1:]), redlock.TTL(standard))...)
			if ofCall && err == nil && strings.Contains(want, "TTL ") {
				refused(errOf(locker.TryLock(t.Context(), "name", ttl)))
				refused(errOf(locker.Lock(t.Context(), "name", ttl)))
				calls++
			}
			if err == nil {
				require.NoError(t, locker.Close())
			}
		}
	}
	require.Equal(t, 9, calls, "rows of TTL with which a Locker has another TTL that it accepts")
	for _, d := range []time.Duration{0, 1, 2500 * time.Millisecond} {
		require.NoError(t, errOf(redlock.New(untouched(t), redlock.WithLocalHandoff(d))))
	}
	for _, opts := range [][]redlock.Option{
		{redlock.WithDrift(0.5, 0)}, {redlock.WithDrift(0.5, 0), redlock.Grace(time.Second)}, {redlock.TTL(4 * time.Millisecond)},
		{redlock.WithDrift(0, 6*time.Second)}, {redlock.Grace(5 * time.Second)},
	} {
		require.NoError(t, errOf(redlock.New(untouched(t), opts...)))
	}
}

func TestCalls_RefuseWhatIsOutOfRangeBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	token := func(text string) redlock.LockOption {
		return redlock.TokenSource(func() (string, error) { return text, nil })
	}
	locker := lockerOver(t, untouched(t))
	never := func(context.Context, *redlock.Lock) error { panic("not asked for") }
	for want, opts := range map[string][]redlock.LockOption{
		`redlock: acquire "name": nil lock option`: {redlock.TTL(time.Second), nil},
		"MaxWait(-1ns)":             {redlock.MaxWait(-1)},
		"RenewFor(-1ns)":            {redlock.RenewFor(-1)},
		"the id is empty":           {redlock.Owner("")},
		"control character '\\n'":   {redlock.Owner("a\nb")},
		"at most 256":               {redlock.Metadata(strings.Repeat("x", 257))},
		"control character '\\x00'": {redlock.Metadata("a\x00b")},
		`Metadata("a|7"): must not contain |, which separates`: {redlock.Metadata("a|7")},
		`redlock: acquire "name": TokenSource: an empty token`: {token("")},
		`"name": TokenSource: a token must not contain |`:      {token("a|1")},
		`"name": the token has the control character '\n'`:     {token("line\n")},
		`"name": the token has 513 bytes: at most 512`:         {token(strings.Repeat("x", 513))},
		"TTL 0s": {redlock.TTL(0)},
	} {
		calls := map[string]error{
			"Lock": errOf(locker.Lock(t.Context(), "name", opts...)), "Do": locker.Do(t.Context(), "name", never, opts...),
		}
		if !strings.HasPrefix(want, "MaxWait") {
			calls["TryLock"] = errOf(locker.TryLock(t.Context(), "name", opts...))
		}
		for call, err := range calls {
			require.ErrorIs(t, err, redlock.ErrInvalid, call)
			require.ErrorContains(t, err, want, call)
		}
	}
	for _, d := range []time.Duration{0, time.Second} { // for a call that does not wait
		require.ErrorContains(t, errOf(locker.TryLock(t.Context(), "name", redlock.MaxWait(d))), "MaxWait("+d.String()+")")
		require.ErrorContains(t, errOf(locker.TryLock(t.Context(), "name", redlock.MaxOutage(d))), "MaxOutage("+d.String()+")")
	}
	for _, opt := range []redlock.LockOption{
		redlock.Reentrant(), redlock.Metadata("x"), redlock.Owner("x"), redlock.MaxWait(0), redlock.MaxOutage(0), redlock.TokenSource(nil),
	} {
		err := errOf(locker.Attach(t.Context(), "name", "token", opt))
		require.ErrorIs(t, err, redlock.ErrInvalid)
		require.ErrorContains(t, err, "are options of Attach")
	}
	require.ErrorContains(t, errOf(locker.Attach(t.Context(), "name", "token", redlock.TTL(0))), "TTL 0s")
	require.ErrorContains(t, errOf(locker.Attach(t.Context(), "name", "")), "the token is empty")
	require.ErrorContains(t, errOf(locker.Attach(t.Context(), "", "token")), "the name is empty")
	require.ErrorContains(t, errOf(locker.Inspect(t.Context(), "")), "the name is empty")
	require.ErrorContains(t, locker.Do(t.Context(), "", never), "the name is empty")
	require.ErrorContains(t, locker.Do(t.Context(), "name", nil), "no function")
	require.NoError(t, locker.Close())
	for _, err := range []error{locker.Do(t.Context(), "name", never), errOf(locker.Attach(t.Context(), "name", "token")), errOf(locker.Inspect(t.Context(), "name"))} {
		require.ErrorIs(t, err, redlock.ErrClosed)
	}
}

func TestNew_RefusesMissingNodesAndTheSameTwice(t *testing.T) {
	t.Parallel()
	nodes := untouched(t)
	for _, none := range [][]*pool.Node{nil, {}} {
		require.EqualError(t, errOf(redlock.New(none)), "redlock: no nodes: a lock needs at least one")
	}
	require.EqualError(t, errOf(redlock.New([]*pool.Node{nodes[0], nil, nodes[1]})), "redlock: node 1 is nil")
	for _, same := range []*pool.Node{nodes[0], open(t, []string{"redis://127.0.0.1:1/2"})[0]} { // before any connection
		require.EqualError(t, errOf(redlock.New([]*pool.Node{nodes[0], nodes[1], same})), "redlock: nodes 0 and 2 are the same: 127.0.0.1:1")
	}
}

func TestNew_CopiesTheSliceOfNodes(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	nodes := slices.Clone(c.nodes())
	locker := lockerOver(t, nodes)
	clear(nodes)
	take(t, locker, "name")
}

func TestOpen_ALockOptionIsTheDefaultOfEveryLockUnlessTheCallSaysOtherwise(t *testing.T) {
	t.Parallel()
	c, fake := onMini(t, 3), clocktest.New()
	locker := c.locker(redlock.WithClock(fake), redlock.WithDrift(0, 0),
		redlock.TTL(time.Hour), redlock.Grace(time.Minute), redlock.Metadata("all"), redlock.RenewFor(2*time.Hour))
	requireLock := func(left time.Duration, metadata string, opts ...redlock.LockOption) {
		t.Helper()
		lock := take(t, locker, "name", opts...)
		require.Equal(t, left, lock.Remaining())
		state := inspect(t, locker, "name")
		require.Equal(t, metadata, only(t, state.Holders).Metadata)
		unlock(t, lock)
		c.eventuallyEmpty()
	}
	requireLock(59*time.Minute, "all")
	requireLock(29*time.Minute, "all", redlock.TTL(30*time.Minute))
	requireLock(time.Hour, "", redlock.Grace(0), redlock.Metadata(""))
	requireLock(50*time.Minute, "one", redlock.Grace(10*time.Minute), redlock.Metadata("one"))
}

// A call has no error for a default that it has no use for: MaxWait of TryLock, Metadata of Attach.
func TestOpen_ADefaultIsIgnoredByACallThatHasNoUseForIt(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	n := 0
	source := func() (string, error) {
		n++
		return string(rune('a' + n)), nil
	}
	locker := c.locker(redlock.RenewFor(long), redlock.MaxWait(0), redlock.MaxOutage(0), redlock.Metadata("metadata"))
	lock := take(t, locker, "name")
	token := detach(t, lock)
	attached := got(locker.Attach(t.Context(), "name", token))(t)
	require.ErrorIs(t, errOf(locker.Lock(t.Context(), "name")), redlock.ErrTaken, "MaxWait(0)")
	unlock(t, attached)

	lock = take(t, locker, "name", redlock.TokenSource(source))
	require.EqualValues(t, "b", lock.Token(), "without the Locker's Metadata")
	unlock(t, lock)
	_, err := locker.TryLock(t.Context(), "name", redlock.TokenSource(source), redlock.Metadata("text"))
	require.ErrorIs(t, err, redlock.ErrInvalid)
	require.ErrorContains(t, err, `Metadata("text")`)
}

// The danger: a default that nobody wants, such as all locks shared.
func TestOpen_AnOptionOfACallIsNoDefault(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]redlock.LockOption{
		"Shared": redlock.Shared(), "Slots": redlock.Slots(3), "Reentrant": redlock.Reentrant(), "Owner": redlock.Owner("me"),
	} {
		for _, err := range []error{
			errOf(redlock.New(untouched(t), opt)), errOf(redlock.Open([]string{"redis://127.0.0.1:1"}, redlock.TTL(time.Minute), opt)),
		} {
			require.ErrorIs(t, err, redlock.ErrInvalid, name)
			require.ErrorContains(t, err, name+": an option of a call, not of a Locker")
		}
	}
}

func TestNoLimit_UndoesADefault(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	holder := take(t, c.locker(), "name")
	locker := c.locker(redlock.MaxWait(0))
	waiter := queue(t, t.Context(), locker, "name", redlock.MaxWait(redlock.NoLimit))
	unlock(t, holder)
	unlock(t, won(t, waiter))

	c.doAll("CONFIG", "SET", "maxmemory", "1")
	locker = c.locker(redlock.MaxOutage(0))
	require.ErrorIs(t, errOf(locker.Lock(t.Context(), "third")), redlock.ErrNoQuorum)
	ctx := within(t, 300*time.Millisecond)
	require.ErrorIs(t, errOf(locker.Lock(ctx, "third", redlock.MaxOutage(redlock.NoLimit))), context.DeadlineExceeded)
}

func TestTokenSource_IsThatOfOneLock(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		lock := take(t, locker, "name", redlock.TokenSource(func() (string, error) { return "document-1", nil }))
		require.EqualValues(t, "document-1", lock.Token())
		c.eventuallyHeld("name", "document-1")
		unlock(t, lock)
		lock = take(t, locker, "name")
		require.Len(t, lock.Token(), len(take(t, locker, "other").Token()), "a random one")
	})
}

// The danger: the release of a round that was refused deletes the key that another round has set with the same token.
func TestTokenSource_OneTokenForTwoRoundsOfACallIsRefused(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	c.silence()
	take(t, c.locker(), "name")
	_, err := c.locker().Lock(briefly(t), "name", redlock.TokenSource(func() (string, error) { return "same", nil }))
	require.ErrorIs(t, err, redlock.ErrInvalid)
	require.EqualError(t, err, `redlock: acquire "name": TokenSource: it has returned the token of the round before`)
}
