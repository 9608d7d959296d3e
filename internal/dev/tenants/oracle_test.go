package tenants_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// shared is the clock of all Lockers, so that their times compare.
var shared = clock.System()

// oracle knows who is inside. A lock that a server may have forgotten proves nothing: it may have been held by a bare
// majority.
type oracle struct {
	mu         sync.Mutex
	inside     map[string]*tenure
	fences     map[string]*tenure // the last ones with a fencing token
	forgetting int                // troubles under way that make a server forget
	forgot     time.Time          // when the last one ended
}

// tenure is a lock that somebody has been given.
type tenure struct {
	lock  *redlock.Lock
	who   string
	began time.Time // before the first command of its round
	won   time.Time
}

// forgets is called when a trouble begins in which servers forget, and forgotten when it has ended.
func (o *oracle) forgets() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forgetting++
}

func (o *oracle) forgotten() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forgetting--
	o.forgot = shared.Now()
}

// remembered reports whether no server can have forgotten any of the locks.
func (o *oracle) remembered(all ...*tenure) bool {
	forgotten := func(t *tenure) bool { return !t.began.After(o.forgot) }
	return o.forgetting == 0 && !slices.ContainsFunc(all, forgotten)
}

// enter notes a lock that was just won with a TTL, and reports the promise that it breaks.
func (o *oracle) enter(lock *redlock.Lock, who string, ttl time.Duration) (other *tenure, broken string) {
	drift := ttl/100 + 2*time.Millisecond
	now := shared.Now()
	t := &tenure{lock: lock, who: who, began: now.Add(lock.Remaining() + drift - ttl), won: shared.Now()}
	if lock.Err() != nil { // nobody knows
		t.began = time.Time{}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.inside == nil {
		o.inside, o.fences = map[string]*tenure{}, map[string]*tenure{}
	}
	other = o.inside[lock.Name()]
	// Err never becomes nil again, so that both were held when the first of these calls was made.
	if other != nil && other.lock.Err() == nil && lock.Err() == nil && o.remembered(other, t) {
		return other, "two holders at once"
	}
	o.inside[lock.Name()] = t
	if lock.Fence() == 0 {
		return nil, ""
	}
	last := o.fences[lock.Name()]
	if last != nil && last.won.Before(t.began) && last.lock.Fence() >= lock.Fence() && o.remembered(last, t) {
		return last, "a fencing token that is not above an earlier one"
	}
	o.fences[lock.Name()] = t
	return nil, ""
}

// leave notes that the holder has stopped relying on the lock.
func (o *oracle) leave(lock *redlock.Lock) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.inside[lock.Name()]; t != nil && t.lock == lock {
		delete(o.inside, lock.Name())
	}
}

func TestOracle_SeesTwoHoldersUnlessAServerHasForgottenOne(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	flush := func() {
		_, err := server.Do("FLUSHALL")
		require.NoError(t, err)
	}
	for noted, want := range map[bool]string{false: "two holders at once", true: ""} {
		var o oracle
		enter := func() string {
			locker, err := redlock.Open([]string{server.URL()}, redlock.WithClock(shared), redlock.TTL(time.Minute))
			require.NoError(t, err)
			t.Cleanup(func() { _ = locker.Close() })
			lock, err := locker.Lock(t.Context(), "name")
			require.NoError(t, err)
			_, broken := o.enter(lock, "", time.Minute)
			return broken
		}
		require.Empty(t, enter())
		if noted {
			o.forgets()
		}
		flush()
		if noted {
			o.forgotten()
		}
		require.Equal(t, want, enter())
		flush()
		require.Equal(t, "two holders at once", enter())
		flush()
	}
}

// tallies is an Observer that counts, by name, the nodes that have granted a lock, and the rounds of its acquires.
type tallies struct {
	mu          sync.Mutex
	yes, rounds map[string]int
}

// of returns what was counted for a name.
func (s *tallies) of(name string) (yes, rounds int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.yes[name], s.rounds[name]
}

// Observe implements [event.Observer].
func (s *tallies) Observe(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch v := e.(type) {
	case protocol.Vote:
		if v.Op == event.OpAcquire && v.Answer == protocol.AnswerYes {
			s.yes[v.Name]++
		}
	case protocol.Round:
		if v.Op == event.OpAcquire {
			s.rounds[v.Name]++
		}
	}
}
