package lock_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// trier is a call that does not wait.
type trier struct {
	*driver
	repeat *lock.Repeat
	call   lock.Call
	bounds []time.Duration // of the pauses
	tokens int
}

// newTrier makes one whose pauses are their bounds less a nanosecond. The nodes time out after a second.
func newTrier(t *testing.T, nodes int, want lock.Want) *trier {
	tr := &trier{call: lock.Call{Want: &want}}
	pace := steady
	pace.Random = func(below time.Duration) time.Duration {
		tr.bounds = append(tr.bounds, below)
		return max(below-1, 0)
	}
	tr.driver = newDriver(t, nodes, pace)
	tr.rules.Fenced = &form.Fenced{Keep: form.DefaultKeep}
	tr.rules.Wall = func() time.Time { return start }
	tr.repeat = tr.rules.Repeat(func() (string, error) {
		tr.tokens++
		return fmt.Sprint("token-", tr.tokens), nil
	})
	return tr
}

// lose has a round end after some time, with an answer of each node.
func (tr *trier) lose(token string, took time.Duration, replies ...wire.Reply) *lock.Acquire {
	a := new(lock.Acquire)
	tr.Ask(nil, a, &tr.call, token, nil)
	tr.now = tr.now.Add(took)
	for node := range replies {
		a.Answered(nil, tr, wire.Tag{What: lock.Vote, Node: uint16(node)}, &replies[node])
	}
	a.Overdue(nil, tr)
	require.NotEqual(tr.t, quorum.Done, a.Outcome())
	tr.Lost(nil, &tr.call, a)
	return a
}

var (
	yes = wire.Reply{Answer: quorum.Yes}
	no  = wire.Reply{Answer: quorum.No, Err: nodeerr.ErrHeld}
)

func numbered(n uint64) wire.Reply { return wire.Reply{Answer: quorum.Yes, Fence: n} }

func slot(i int) wire.Reply { return wire.Reply{Answer: quorum.Yes, Slot: wire.SlotAt(i)} }

func TestRepeat_FourTimesEachWithItsOwnTokenAfterAPauseThatDoubles(t *testing.T) {
	tr := newTrier(t, 3, lock.Want{TTL: time.Minute})
	for n := range 5 {
		a := tr.lose(fmt.Sprint("token-", n), 10*time.Millisecond, yes, no, no)
		pause, ok := tr.repeat.Lost(a.LostRound())
		if n == 4 {
			require.False(t, ok)
			break
		}
		require.True(t, ok)
		tr.now = tr.now.Add(pause)
		token, err := tr.repeat.Begin(&tr.call)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("token-", n+1), token)
	}
	require.Equal(t, []time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond}, tr.bounds)
}

func TestRepeat_NotOfARoundThatWasNotSplit(t *testing.T) {
	for name, replies := range map[string][]wire.Reply{
		"no node has granted it":         {no, no, no},
		"one has, but too few are asked": {yes, {Answer: quorum.Unknown}, {Answer: quorum.Unknown}},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTrier(t, 3, lock.Want{TTL: time.Minute})
			_, ok := tr.repeat.Lost(tr.lose("token", time.Millisecond, replies...).LostRound())
			require.False(t, ok)
		})
	}
}

func TestRepeat_BeginsWithinTheTimeoutOfTheFirstRound(t *testing.T) {
	tr := newTrier(t, 3, lock.Want{TTL: time.Minute})
	pause, ok := tr.repeat.Lost(tr.lose("token-0", 300*time.Millisecond, yes, no, no).LostRound())
	require.True(t, ok)
	tr.now = tr.now.Add(pause)
	token, err := tr.repeat.Begin(&tr.call)
	require.NoError(t, err)
	require.NotEmpty(t, token)
	_, ok = tr.repeat.Lost(tr.lose(token, 200*time.Millisecond, yes, no, no).LostRound())
	require.False(t, ok, "the pause would end 1.2 s after the first round began")

	tr = newTrier(t, 3, lock.Want{TTL: time.Minute})
	_, ok = tr.repeat.Lost(tr.lose("token-0", 300*time.Millisecond, yes, no, no).LostRound())
	require.True(t, ok)
	tr.now = start.Add(time.Second) // the timer was late
	token, err = tr.repeat.Begin(&tr.call)
	require.NoError(t, err)
	require.Empty(t, token)
}

func TestRepeat_AsksForNumbersAboveThoseThatWereGranted(t *testing.T) {
	tr := newTrier(t, 5, lock.Want{TTL: time.Minute})
	tr.rules.Form = tr.rules.Fenced
	for n, granted := range []uint64{70, 80, 90} { // each is above the floor
		a := tr.lose("token", time.Millisecond, numbered(granted-1), no, numbered(granted), no, no)
		require.Equal(t, []uint64{0, 70, 80}[n], a.Ask.Floor)
		_, ok := tr.repeat.Lost(a.LostRound())
		require.True(t, ok)
		_, err := tr.repeat.Begin(&tr.call)
		require.NoError(t, err)
	}
	require.Equal(t, uint64(90), tr.lose("token", time.Millisecond, no, no, no, no, no).Ask.Floor)
}

func TestRepeat_BeginsAtTheFurthestSlot(t *testing.T) {
	tr := newTrier(t, 3, lock.Want{TTL: time.Minute, Kind: form.KindSlot, Slots: 10})
	a := tr.lose("token", time.Millisecond, slot(9), slot(2), no) // the nodes have started at the last, and gone on at the first
	require.Equal(t, 9, a.Ask.Start)
	_, ok := tr.repeat.Lost(a.LostRound())
	require.True(t, ok)
	_, err := tr.repeat.Begin(&tr.call)
	require.NoError(t, err)
	require.Equal(t, 2, tr.lose("token", time.Millisecond, no, no, no).Ask.Start)
}

func TestRepeat_OfSeveralNamesIfOneWasSplit(t *testing.T) {
	tr := newTrier(t, 3, lock.Want{TTL: time.Minute})
	lost := []lock.LostRound{
		tr.lose("token", time.Millisecond, no, no, no).LostRound(), tr.lose("token", time.Millisecond, yes, no, no).LostRound(),
	}
	_, ok := tr.repeat.Lost(lost...)
	require.True(t, ok)
}

func TestRepeat_EndsWithTheErrorOfItsToken(t *testing.T) {
	tr := newTrier(t, 3, lock.Want{TTL: time.Minute})
	broken := errors.New("broken")
	tr.repeat = tr.rules.Repeat(func() (string, error) { return "token", broken })
	_, ok := tr.repeat.Lost(tr.lose("token", time.Millisecond, yes, no, no).LostRound())
	require.True(t, ok)
	token, err := tr.repeat.Begin(&tr.call)
	require.ErrorIs(t, err, broken)
	require.Empty(t, token)
}
