package check_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/chaos/internal/check"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// world is a lock and a register, which do one thing after the other. Their users see that with delays, in both directions.
type world struct {
	story
	dice    *rand.Rand
	now     int64 // in ms
	fence   uint64
	holds   int
	stored  uint64 // the fence and the value of the register
	value   string
	written []*history.Op // writes that were not answered
	leases  [][]*history.Op
}

func (w *world) upTo(ms int64) int64 { return w.dice.Int64N(ms + 1) }

// around returns when a call begins that is carried out now, and when it ends.
func (w *world) around(before, after int64) (from, to int64) {
	return max(w.now-w.upTo(before), 0), w.now + w.upTo(after)
}

// turn is the time in which one has the lock.
func (w *world) turn() {
	w.now += 1 + w.upTo(20)
	w.fence += 1 + uint64(w.upTo(2))
	w.holds++
	id := fmt.Sprintf("h%d", w.holds)
	from, to := w.around(400, 10)
	if w.dice.IntN(20) == 0 {
		to += w.upTo(3000) // the process was stopped, until the lock is over
	}
	op := w.got(id, from, to, fence(w.fence), way([]string{history.Waiting, history.Trying}[w.dice.IntN(2)]))
	op.Locker = id
	op.Renews = w.dice.IntN(2) == 0
	won := w.now
	w.leases = append(w.leases, []*history.Op{op})
	for range w.dice.IntN(4) {
		w.now += w.upTo(40)
		w.step(id, op, to)
	}
	w.last(id)
	end := w.now + 1
	switch w.dice.IntN(6) {
	case 0: // it expires, and others have it before the holder notices
		w.now = max(end, won+3000)
		w.over(id, op)
	case 1:
		w.detach(id, max(end, to))
	default:
		w.now = max(w.now, to) + 1 + w.upTo(5)
		unlock := w.unlock(id, w.now, never)
		w.now += w.upTo(5)
		unlock.End = (w.now + w.upTo(10)) * 1e6
		if w.dice.IntN(10) == 0 {
			unlock.Err = history.NoQuorum
		}
	}
}

// last is what is seen of the holder: nothing if it was late to get the lock.
func (w *world) last(id string) {
	got := w.leases[len(w.leases)-1][0]
	if w.now*1e6 > got.End && w.now*1e6 < got.Start+int64(3*time.Second) {
		w.proof(id, w.now)
		w.leases[len(w.leases)-1] = append(w.leases[len(w.leases)-1], w.story[len(w.story)-1])
	}
}

func (w *world) over(id string, op *history.Op) {
	at := max(w.now+w.upTo(100), op.End/1e6+1)
	w.of(id, history.Over, at, at)
	w.unlock(id, at+1, at+w.upTo(10)+1).Err = history.NotHeld
	w.store(id, op.Fence, w.now, at+1, history.Unknown) // which may come at any time
}

func (w *world) detach(id string, at int64) {
	w.of(id, history.Detach, at, at+5, token("T"+id))
	w.now = at + 10 + w.upTo(100)
	if w.dice.IntN(3) == 0 { // nobody takes it up
		w.now += 3000
		return
	}
	from, to := w.around(5, 5)
	next := w.add(history.Op{
		Kind: history.Attach, Client: id + "'", Hold: id + "'", Token: "T" + id, Validity: 2e9, Fence: w.fence, Locker: id,
	}, from, to)
	w.now = to + 10
	w.proof(id+"'", w.now)
	w.unlock(next.Hold, w.now+1, w.now+2)
	w.now += 3
}

// step is what happens while a holder has the lock.
func (w *world) step(id string, op *history.Op, got int64) {
	from, to := w.around(5, 5)
	switch w.dice.IntN(6) {
	case 0:
		w.last(id)
	case 1:
		w.store(id, op.Fence, from, to, []string{"", "", history.Unknown}[w.dice.IntN(3)])
	case 2:
		w.read(w.stored, w.value, from, to)
	case 3:
		w.call(history.Taken, from, to)
	case 4:
		w.call(history.Canceled, w.now-w.upTo(300)-300, w.now, way(history.Waiting))
	case 5:
		if w.now > got {
			again := w.got(id+"r", w.now, w.now+2, within(id), fence(op.Fence))
			again.Locker = id
			w.proof(again.Hold, w.now+3)
			w.unlock(again.Hold, w.now+4, w.now+6)
			w.now += 7
		}
	}
}

// store is a write that is carried out now, if it is answered, and later or never otherwise.
func (w *world) store(id string, f uint64, from, to int64, answer string) {
	value := fmt.Sprintf("%s#%d", id, len(w.story))
	switch {
	case answer == history.Unknown:
		w.write(f, value, from, to, result(answer))
		w.written = append(w.written, w.story[len(w.story)-1])
	case f >= w.stored:
		w.write(f, value, from, to)
		w.stored, w.value = f, value
	default:
		w.write(f, value, from, to, result(history.Stale))
	}
	if i := w.dice.IntN(len(w.written) + 1); i < len(w.written) {
		late := w.written[i]
		w.written = append(w.written[:i:i], w.written[i+1:]...)
		if late.Start <= w.now*1e6 && late.Fence >= w.stored {
			w.stored, w.value = late.Fence, late.Value
		}
	}
}

func newWorld(seed uint64) *world {
	w := &world{dice: rand.New(rand.NewPCG(seed, 0))}
	for range 5 + w.dice.IntN(40) {
		w.turn()
	}
	return w
}

const runs = 2000

func TestRandom_AHistoryThatIsRightBreaksNothing(t *testing.T) {
	handoff := with(func(r *check.Rules) { r.Fenced, r.Handoff = true, true })
	for seed := range uint64(runs) {
		w := newWorld(seed)
		r := []check.Rules{fenced, fenced, handoff, rules}[seed%4]
		require.Empty(t, w.broken(t, r), "seed %d\n%s", seed, check.Text(w.story))
	}
}

// TestRandom_OneWrongThingIsFound makes one thing wrong in a history that was right.
func TestRandom_OneWrongThingIsFound(t *testing.T) {
	wrong := map[string]func(w *world) (done bool){
		check.FenceWentBack: func(w *world) bool {
			i := w.dice.IntN(len(w.leases) - 1)
			a, b := w.leases[i][0], w.leases[i+1][0]
			a.Fence, b.Fence = b.Fence, a.Fence
			return a.End < b.Start
		},
		check.TwoHolders: func(w *world) bool {
			i := w.dice.IntN(len(w.leases) - 1)
			a, b := w.leases[i], w.leases[i+1]
			w.proof(a[0].Hold, b[0].End/1e6+1)
			return len(b) > 1 && b[len(b)-1].Start > b[0].End+1e6 && a[0].End < b[0].End
		},
		check.RegisterBack: func(w *world) bool {
			w.now += 10000
			w.read(w.stored, w.value, w.now, w.now+10)
			w.write(w.stored+1, "new", w.now+11, w.now+20)
			w.read(w.stored, w.value, w.now+21, w.now+30)
			return true
		},
	}
	for promise, spoil := range wrong {
		done := 0
		for seed := range uint64(runs / 4) {
			w := newWorld(seed)
			if spoil(w) {
				done++
				require.Contains(t, w.broken(t, fenced), promise, "seed %d\n%s", seed, check.Text(w.story))
			}
		}
		assert.Greater(t, done, runs/40, promise)
	}
}

// TestCheck_TakesLongHistories checks a history as a long run has it, of one name that all want. The danger: a check that takes twice as
// long with each operation more, which only the timeout of the tests ends.
func TestCheck_TakesLongHistories(t *testing.T) {
	w := &world{dice: rand.New(rand.NewPCG(1, 0))}
	for len(w.story) < 15000 {
		w.turn()
	}
	begun := time.Now()
	assert.Empty(t, w.broken(t, fenced))
	t.Logf("%d operations in %v", len(w.story), time.Since(begun))
}
