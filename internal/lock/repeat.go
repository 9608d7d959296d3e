package lock

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// maxRepeats is how many times a call that does not wait repeats its round.
const maxRepeats = 4

// Repeat decides whether a call that does not wait repeats a round that it has lost. Callers that try at the same
// instant may each win some of the nodes, so that none has a majority. If the round may have been split in this way,
// another follows after a pause. The pauses keep the callers apart, so that soon one of them is ahead of the others.
//
// A repeat has a token of its own. It follows the releases of the lost round on the same connections, because a round
// ends only after it has sent them. No repeat begins later than a node timeout after the first round began, and all end
// when the first round had to end.
type Repeat struct {
	rules *Rules
	token func() (string, error) // makes the token of a round
	until time.Time              // from when on no repeat begins; zero until a round was lost
	ends  time.Time              // when the caller no longer waits for one
	begun int                    // how many repeats had a pause
	lost  []LostRound            // the last round, for each name of the call
}

// LostRound is the part of a lost round that its repeat depends on.
type LostRound struct {
	began  time.Time
	raises bool      // the nodes may be asked a second time for fencing numbers
	split  bool      // see [quorum.Acquire.Split]
	floor  uint64    // the highest fencing number that a node granted, or 0 if there is none. It is above earlier floors
	slot   wire.Slot // the furthest slot that a node granted, or zero if there is none
}

// LostRound returns the record of a round that is lost.
func (a *Acquire) LostRound() LostRound {
	l := LostRound{began: a.grant.Start, split: a.votes.Split()}
	if f, ok := a.form.(form.Shared); ok && f.HasSlots() {
		l.slot = wire.Slot(a.votes.Furthest(uint64(a.Ask.Start), uint64(f.Slots))) //nolint:gosec // a slot, or 0
	} else {
		l.floor = a.votes.Highest()
		_, l.raises = a.form.(form.Numbered)
	}
	return l
}

// Repeat makes the Repeat of a call. token makes the token of each round.
func (r *Rules) Repeat(token func() (string, error)) *Repeat { return &Repeat{rules: r, token: token} }

// Lost handles the loss of a round, which was lost for each name of the call. If another follows, ok is true, and the
// call has to pause before it.
func (r *Repeat) Lost(lost ...LostRound) (pause time.Duration, ok bool) {
	now, began := r.rules.Clock.Now(), lost[0].began
	if r.until.IsZero() {
		r.until, r.ends = began.Add(r.rules.Timeout), began.Add(r.rules.Timeout)
		if lost[0].raises {
			r.ends = r.until.Add(r.rules.Timeout)
		}
	}
	r.lost = lost
	if r.begun == maxRepeats || !slices.ContainsFunc(lost, func(l LostRound) bool { return l.split }) {
		return 0, false
	}
	pause = r.rules.Pace.Random(now.Sub(began) << r.begun)
	r.begun++
	return pause, now.Add(pause).Before(r.until)
}

// Ends returns when the caller no longer waits for a repeat. Then the outcome of the round before is that of the call.
func (r *Repeat) Ends() time.Time { return r.ends }

// Begin returns the token of a repeat, and prepares the calls of its names. It returns "" if it is too late to begin.
func (r *Repeat) Begin(calls ...*Call) (token string, err error) {
	token, err = r.token()
	if err != nil || !r.rules.Clock.Now().Before(r.until) {
		return "", err
	}
	for i, c := range calls {
		c.floor, c.slot = r.lost[i].floor, r.lost[i].slot
	}
	return token, nil
}
