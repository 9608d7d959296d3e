package lock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

func TestPart_IsAnAnswerOfTheSameServerToTheSameCommand(t *testing.T) {
	reply := &wire.Reply{Answer: quorum.Yes, Command: "EVALSHA", Server: "a", Each: []wire.Reply{
		{Answer: quorum.Yes, Fence: 7}, {Answer: quorum.Yes, Fence: 9},
	}}
	require.Equal(t, &wire.Reply{Answer: quorum.Yes, Command: "EVALSHA", Server: "a", Fence: 7}, lock.Part(reply, 0))
	require.Equal(t, &wire.Reply{Answer: quorum.Yes, Command: "EVALSHA", Server: "a", Fence: 9}, lock.Part(reply, 1))
	unsent := wire.Unsent(lock.ErrOver)
	require.Equal(t, unsent, lock.Part(unsent, 1))
}

func TestAllWon_NeedsEachRound(t *testing.T) {
	require.True(t, lock.AllWon([]quorum.Outcome{quorum.Done, quorum.Done}))
	require.False(t, lock.AllWon([]quorum.Outcome{quorum.Done, quorum.TooLate}))
	require.False(t, lock.AllWon([]quorum.Outcome{quorum.Denied, quorum.Denied}))
}

// A counter that a node has got back from an older copy of the data would not advance otherwise: by the time that is sent it is ahead.
func TestTogether_TimeThatIsLearntWhileRoundsBeginHoldsForNoneOfThem(t *testing.T) {
	fenced := &form.Fenced{Keep: form.DefaultKeep}
	d := newDriver(t, 3, steady)
	d.rules.Form, d.rules.Wall = fenced, func() time.Time { return start.Add(-time.Hour) }
	call, rounds := &lock.Call{Want: &lock.Want{TTL: time.Second}}, [2]lock.Acquire{}
	for i := range rounds {
		var n lock.Name
		n.Begin(&d.rules, string(rune('a'+i)))
		n.Join(&rounds[i], call, "token", nil)
		fenced.Won(start, form.Ask{TTL: time.Second}, uint64(start.UnixMicro())) // of another call
	}
	var c wire.Command
	lock.Together(&c, []*lock.Acquire{&rounds[0], &rounds[1]})
	require.Equal(t, []string{"0", "0"}, c.Args[9:], "floors, with which counters advance")
}
