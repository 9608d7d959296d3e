package wire_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

const (
	timeout    = 50 * time.Millisecond
	maxOverdue = time.Second
	redeliver  = time.Minute
)

var (
	start   = time.Unix(1000, 0)
	errDown = errors.New("the network is down")
)

// pipe is a pipeline of texts.
type pipe struct {
	*testing.T
	*wire.Pipeline[string]
}

func newPipe(t *testing.T) *pipe {
	p := &pipe{t, &wire.Pipeline[string]{Timeout: timeout, MaxOverdue: maxOverdue}}
	p.connect()
	return p
}

// connect makes a connection, after a pause if there is one.
func (p *pipe) connect() {
	p.Helper()
	at := p.Life.Dial(start.Add(time.Hour), false)
	p.Greeted(at)
}

// op is a command. What begins with release is clean-up, what begins with observe is patient. Behind "of" is its token.
func op(item string) wire.Op[string] {
	name, _, _ := strings.Cut(item, " ")
	_, token, _ := strings.Cut(item, " of ")
	return wire.Op[string]{Item: item, Command: &wire.Command{
		Token: token, Class: map[string]wire.Class{"acquire": wire.Vote, "extend": wire.Extend, "release": wire.CleanUp}[name],
		Redeliver: redeliver, WantsLate: name == "observe" || name == "extend",
	}}
}

// send queues commands.
func (p *pipe) send(now time.Time, items ...string) {
	p.Helper()
	for _, item := range items {
		_, _, err := p.Send(now, op(item))
		require.NoError(p, err, item)
	}
}

// written takes what is to be written.
func (p *pipe) written(now time.Time) (items []string) {
	for _, o := range p.Take(now, 1000) {
		items = append(items, o.Item)
	}
	return items
}

// refuses fails the test unless a command is not queued for this reason.
func (p *pipe) refuses(now time.Time, item string, reason error) {
	p.Helper()
	_, _, err := p.Send(now, op(item))
	require.ErrorIs(p, err, reason, item)
}

// fill sends a command until it is refused, and returns how many were queued.
func (p *pipe) fill(now time.Time, item string, reason error) (n int) {
	p.Helper()
	for ; ; n++ {
		if _, _, err := p.Send(now, op(item)); err != nil {
			require.ErrorIs(p, err, reason)
			return n
		}
	}
}

// ended fails the test unless these commands have ended for a reason since the last call.
func (p *pipe) ended(answer quorum.Answer, reason error, items ...string) {
	p.Helper()
	var got []string
	for _, n := range p.Notices() {
		require.Equal(p, answer, n.Answer, n.Item)
		require.ErrorIs(p, n.Err, reason, n.Item)
		got = append(got, n.Item)
	}
	require.Equal(p, items, got)
}

func TestPipeline_BoundsWhatIsUnderWay(t *testing.T) {
	for _, item := range []string{"release", "observe"} {
		p := newPipe(t)
		require.Equal(t, 4096, p.fill(start, "acquire", nodeerr.ErrOverloaded))
		require.Equal(t, 3*4096, p.fill(start, item, nodeerr.ErrOverloaded))
		p.refuses(start, "acquire", nodeerr.ErrOverloaded)
	}
}

func TestPipeline_BoundsWhatIsSentAllTheSameWhileAnAnswerIsOverdue(t *testing.T) {
	for item, reason := range map[string]error{"release": nodeerr.ErrOverloaded, "observe": nodeerr.ErrSuspended} {
		p, late := newPipe(t), start.Add(timeout)
		p.send(start, "acquire")
		p.written(start)
		p.Expire(late)
		p.refuses(late, "acquire", nodeerr.ErrSuspended)
		p.refuses(late, "extend", nodeerr.ErrSuspended) // a late answer is wanted, but may be that it has changed the key
		require.Equal(t, 4*4096-1, p.fill(late, item, reason))
	}
}

// The danger: each of a hundred releases, one after the other, waits for its timeout for a server that is known to be frozen.
func TestPipeline_CleanUpTogetherWaitsForOneTimeoutWhileNothingAnswers(t *testing.T) {
	for reason, silence := range map[error]func(p *pipe) (end func()){
		nodeerr.ErrSuspended: func(p *pipe) (end func()) {
			p.send(start.Add(-timeout), "acquire")
			p.written(start.Add(-timeout))
			p.Expire(start)
			p.ended(quorum.Unknown, nodeerr.ErrTimeout, "acquire")
			return func() { p.Answered() } // late
		},
		errDown: func(p *pipe) (end func()) {
			p.Broken(start, nil, wire.Served, true)
			p.Failed(start, errDown, false)
			return p.connect
		},
	} {
		p := newPipe(t)
		release := func(now, expire time.Time) {
			_, at, err := p.Send(now, op("release"))
			require.NoError(t, err)
			require.Equal(t, expire, at, reason)
		}
		end := silence(p)
		release(start, start.Add(timeout)) // it may have been a short pause
		release(start.Add(timeout/2), start.Add(timeout))
		require.Empty(t, p.Notices())
		p.Expire(start.Add(timeout))
		require.Len(t, p.Notices(), 2)
		for _, later := range []time.Duration{timeout, time.Hour} {
			release(start.Add(later), start.Add(timeout))
			p.ended(quorum.Unknown, reason, "release")
		}
		end()
		require.Len(t, p.written(start), 4, "they are sent")
		release(start.Add(timeout), start.Add(2*timeout))
		require.Empty(t, p.Notices())
	}
}

func TestPipeline_OnlyCleanUpWaitsForAConnectionThatFailed(t *testing.T) {
	p := newPipe(t)
	p.Broken(start, nil, wire.Served, true)
	p.send(start, "acquire", "observe", "release 1") // it may be back at once
	p.Failed(start, errDown, true)
	notices := p.Notices()
	require.Equal(t, []wire.Notice[string]{
		{Item: "acquire", Answer: quorum.Unsent, Err: errDown}, {Item: "observe", Answer: quorum.Unsent, Err: errDown},
		{Item: "release 1", Answer: quorum.Unknown, Err: errDown},
	}, notices)
	p.refuses(start, "acquire", errDown)
	p.refuses(start, "observe", errDown)
	p.send(start, "release 2")
	p.Expire(start.Add(timeout))
	p.ended(quorum.Unknown, errDown, "release 2")
	p.connect()
	require.Equal(t, []string{"release 1", "release 2"}, p.written(start.Add(timeout)))
	p.Broken(start, nil, wire.Served, true)
	p.send(start, "acquire") // the reason of the attempt before is none any more
}

// The danger: a caller is told that a release is sent again which is not, or the reverse.
func TestSentAgain_IsTrueOfTheCleanUpThatThePipelineKeeps(t *testing.T) {
	down := &nodeerr.ConnectError{Err: errDown}
	for name, lose := range map[string]func(p *pipe, now time.Time){
		"no answer": func(p *pipe, now time.Time) {
			p.written(start)
			p.Expire(now)
		},
		"broken, by what another command was answered": func(p *pipe, now time.Time) {
			p.written(start)
			p.Broken(now, nodeerr.ErrProtocol, wire.Served, true)
		},
		"no connection": func(p *pipe, now time.Time) {
			p.Broken(start, nil, wire.Served, true)
			p.Failed(now, down, true)
		},
		"an answer was overdue": func(p *pipe, now time.Time) {
			p.written(start)
			p.Expire(now)
			p.ended(quorum.Unknown, nodeerr.ErrTimeout, "release")
			p.Answered()
			p.send(now, "acquire")
			p.written(now)
			p.Expire(now.Add(timeout))
			p.send(now.Add(timeout), "release")
			p.ended(quorum.Unknown, nodeerr.ErrTimeout, "acquire")
			p.Expire(now.Add(2 * timeout))
			p.ended(quorum.Unknown, nodeerr.ErrTimeout, "release")
			p.send(now.Add(2*timeout), "release")
		},
		"closed": func(p *pipe, now time.Time) {
			p.Close(now, op("last"))
			p.Drop(now, nodeerr.ErrClosed)
		},
	} {
		p, now := newPipe(t), start.Add(timeout)
		p.send(start, "release")
		lose(p, now)
		err := p.Notices()[0].Err
		if p.Life.State() != wire.Serving {
			p.connect()
		}
		require.Equal(t, wire.SentAgain(err), !p.Closed() && !p.Idle(), "%s: %v", name, err)
	}
	for _, answered := range []error{
		&nodeerr.ServerError{Code: "NOPERM"}, &nodeerr.ServerError{Code: "BUSY"}, nodeerr.ErrProtocol, nodeerr.ErrOverloaded, nodeerr.ErrClosed,
	} {
		require.False(t, wire.SentAgain(answered), answered)
	}
	require.True(t, wire.SentAgain(errReplica), "it goes first on the connection to the server that has taken its place")
	p := newPipe(t)
	p.Broken(start, nil, wire.Served, true)
	p.Failed(start, down, true)
	p.fill(start, "release", nodeerr.ErrOverloaded)
}

func TestPipeline_TheFirstAttemptToConnectThatTakesTooLongIsTheReason(t *testing.T) {
	p := &pipe{t, &wire.Pipeline[string]{Timeout: timeout, MaxOverdue: maxOverdue}}
	p.Life.Dial(start, false)
	p.send(start, "acquire")
	p.Expire(start.Add(timeout))
	p.ended(quorum.Unsent, nodeerr.ErrTimeout, "acquire")
	p.refuses(start, "acquire", nodeerr.ErrTimeout)
}

func TestPipeline_OneLateAnswerMakesItGoodAgain(t *testing.T) {
	p := newPipe(t)
	p.send(start, "a", "b")
	require.Equal(t, []string{"a", "b"}, p.written(start))
	p.Expire(start.Add(timeout))
	p.ended(quorum.Unknown, nodeerr.ErrTimeout, "a", "b")
	p.refuses(start.Add(timeout), "c", nodeerr.ErrSuspended)
	for _, item := range []string{"a", "b"} {
		require.Equal(t, item, *p.Next())
		_, reported := p.Answered()
		require.True(t, reported)
		p.send(start.Add(timeout), "behind "+item)
	}
	require.Nil(t, p.Next(), "nothing more is written")
	require.Equal(t, []string{"behind a", "behind b"}, p.written(start.Add(timeout)))
	_, reported := p.Answered()
	require.False(t, reported)
}

func TestPipeline_ACommandThatTimesOutCostsOthersNothing(t *testing.T) {
	p := newPipe(t)
	p.send(start, "slow")
	p.send(start.Add(20*time.Millisecond), "quick")
	p.written(start)
	cut, next := p.Expire(start.Add(timeout))
	require.False(t, cut)
	require.Equal(t, start.Add(20*time.Millisecond+timeout), next)
	p.ended(quorum.Unknown, nodeerr.ErrTimeout, "slow")
}

func TestPipeline_IsCutWhenAnAnswerIsOverdueForTooLong(t *testing.T) {
	p := newPipe(t)
	p.send(start, "acquire")
	p.written(start)
	cut, next := p.Expire(start.Add(timeout))
	require.False(t, cut)
	require.Equal(t, start.Add(timeout+maxOverdue), next)
	cut, _ = p.Expire(next)
	require.True(t, cut)
	p.Notices()
	require.True(t, p.Broken(next, nil, wire.Served, true))
	require.Empty(t, p.Notices(), "it has ended before")
	p.connect()
	p.send(next, "another")
}

func TestPipeline_WhatIsNotWrittenInTimeIsNotWrittenUnlessItCleansUp(t *testing.T) {
	p := newPipe(t)
	p.send(start, "acquire", "release")
	p.Expire(start.Add(timeout))
	require.Equal(t, []wire.Notice[string]{
		{Item: "acquire", Answer: quorum.Unsent, Err: nodeerr.ErrTimeout},
		{Item: "release", Answer: quorum.Unknown, Err: nodeerr.ErrTimeout},
	}, p.Notices())
	require.Equal(t, []string{"release"}, p.written(start.Add(timeout)))
	_, next := p.Expire(start.Add(2*timeout - 1))
	require.Equal(t, start.Add(2*timeout), next, "its timeout begins anew when it is written")
}

// The danger: rounds on a node that is down pile up clean-up, where nothing of them can be.
func TestPipeline_NothingIsCleanedUpAfterAnAcquireThatNeverWentOut(t *testing.T) {
	p := newPipe(t)
	p.send(start, "acquire of mine")
	p.written(start)
	p.send(start, "release of mine", "acquire of yours", "release of yours", "release of another's")
	p.Broken(start, nil, wire.Served, true)
	p.Failed(start, errDown, true)
	p.connect()
	require.Equal(t, []string{"release of mine", "release of another's"}, p.written(start))

	p = newPipe(t)
	p.send(start, "acquire of mine")
	p.send(start.Add(1), "release of mine")
	p.Expire(start.Add(timeout))
	p.ended(quorum.Unsent, nodeerr.ErrTimeout, "acquire of mine")
	p.Expire(start.Add(timeout + 1))
	p.ended(quorum.Unknown, nodeerr.ErrTimeout, "release of mine")
	require.True(t, p.Idle())
}

func TestPipeline_CleanUpThatWasLostGoesFirstAndInOrder(t *testing.T) {
	p := newPipe(t)
	p.send(start, "acquire", "release 1", "release 2")
	p.written(start)
	p.send(start, "release 3", "next")
	require.True(t, p.Broken(start, errDown, wire.Served, true))
	p.ended(quorum.Unknown, errDown, "acquire", "release 1", "release 2")
	p.connect()
	require.Equal(t, []string{"release 1", "release 2", "release 3", "next"}, p.written(start))
	require.True(t, p.Broken(start, nil, wire.Served, true))
	p.ended(quorum.Unknown, nodeerr.ErrBroken, "release 3", "next")
	p.connect()
	require.Equal(t, []string{"release 1", "release 2", "release 3"}, p.written(start))
	for range 3 {
		p.Answered()
	}
	require.False(t, p.Broken(start, nil, wire.Served, true))
	require.True(t, p.Idle(), "it is not sent after its answer")
}

func TestPipeline_CleanUpIsDroppedWhenItIsPointless(t *testing.T) {
	for _, written := range []bool{false, true} {
		for _, down := range []time.Duration{redeliver - 1, redeliver} {
			p := newPipe(t)
			p.send(start, "release")
			if written {
				p.written(start)
				p.Broken(start, nil, wire.Served, true)
			} else {
				p.Broken(start, nil, wire.Served, true)
				p.Failed(start, errDown, true)
			}
			p.Life.Dial(start.Add(down), false)
			p.Failed(start.Add(down), errDown, true)
			require.Equal(t, down == redeliver, p.Idle())
		}
	}
}

func TestPipeline_RepeatsWhatSomebodyWaitsForOrWhatCleansUp(t *testing.T) {
	for item, late := range map[string]bool{"acquire": false, "release": true} {
		p := newPipe(t)
		p.send(start, item, "observe")
		p.written(start)
		o, _ := p.Answered()
		require.True(t, p.Repeat(o))
		again := p.Take(start, 10)
		require.Len(t, again, 1)
		require.True(t, again[0].Again)

		p.Expire(start.Add(timeout))
		p.Answered()
		o, reported := p.Answered()
		require.True(t, reported)
		require.Equal(t, late, p.Repeat(o), item)
	}
}

func TestPipeline_RepeatsNothingBehindItsRelease(t *testing.T) {
	p := newPipe(t)
	p.send(start, "acquire", "release")
	p.written(start)
	o, _ := p.Answered()
	require.False(t, p.Repeat(o))
}

func TestPipeline_WithdrawsWhatTakesLocksAndIsNotWritten(t *testing.T) {
	p := newPipe(t)
	p.send(start, "acquire")
	p.written(start)
	p.send(start, "acquire", "extend")
	p.Withdraw(start, "", errDown)
	p.ended(quorum.Unsent, errDown, "acquire")
	require.Equal(t, []string{"extend"}, p.written(start))
}

func TestPipeline_WithdrawsTheAcquireOfOneToken(t *testing.T) {
	p := newPipe(t)
	p.send(start, "acquire of one", "acquire of other")
	p.Withdraw(start, "one", errDown)
	p.ended(quorum.Unsent, errDown, "acquire of one")
	require.Equal(t, []string{"acquire of other"}, p.written(start))
}

func TestPipeline_TheLastCommandHasItsTimeout(t *testing.T) {
	p := newPipe(t)
	p.Close(start, op("last"))
	p.Expire(start)
	require.Equal(t, []string{"last"}, p.written(start))
}
