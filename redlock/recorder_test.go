package redlock_test

import (
	"crypto/rand"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// recorder is an Observer that keeps what it is told.
type recorder struct {
	mu       sync.Mutex
	votes    []redlock.Vote
	verdicts []redlock.Verdict
}

func (r *recorder) Vote(v redlock.Vote) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.votes = append(r.votes, v)
}

func (r *recorder) Verdict(v redlock.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verdicts = append(r.verdicts, v)
}

// votesOn returns the votes so far on an operation and a name ("": any), in the order of the nodes.
func (r *recorder) votesOn(op, name string) []redlock.Vote {
	r.mu.Lock()
	defer r.mu.Unlock()
	votes := slices.DeleteFunc(slices.Clone(r.votes), func(v redlock.Vote) bool {
		return v.Op != op || name != "" && v.Name != name
	})
	slices.SortStableFunc(votes, func(a, b redlock.Vote) int { return a.Node - b.Node })
	return votes
}

// verdictsOn returns the verdicts on an operation so far.
func (r *recorder) verdictsOn(op string) []redlock.Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.verdicts), func(v redlock.Verdict) bool { return v.Op != op })
}

// yes returns how many nodes have said yes so far to the acquires of a name.
func (r *recorder) yes(name string) int {
	votes := r.votesOn("acquire", name)
	return len(slices.DeleteFunc(votes, func(v redlock.Vote) bool { return v.Answer != pool.Yes }))
}

// waitForVotes waits until n votes on an operation and a name ("": any) have come in, stragglers included.
func (r *recorder) waitForVotes(tb testing.TB, op, name string, n int) {
	tb.Helper()
	eventually(tb, func() bool { return len(r.votesOn(op, name)) >= n }, "%d votes on %s %s", n, op, name)
}

// takeOnAll takes locks until one is held on all n nodes, and returns that one, the others released.
func (r *recorder) takeOnAll(tb testing.TB, locker *redlock.Locker, n int, opts ...redlock.LockOption) *redlock.Lock {
	tb.Helper()
	var lock *redlock.Lock
	eventually(tb, func() bool {
		name := rand.Text()
		var err error
		if lock, err = locker.TryLock(tb.Context(), name, opts...); err != nil {
			return false
		}
		r.waitForVotes(tb, "acquire", name, n)
		if r.yes(name) == n {
			return true
		}
		_ = lock.Unlock(tb.Context())
		return false
	}, "a lock on all nodes")
	return lock
}

// connect waits until all n nodes take part. By then they have also carried out what was sent to them before.
func (r *recorder) connect(tb testing.TB, locker *redlock.Locker, n int) {
	tb.Helper()
	lock := r.takeOnAll(tb, locker, n)
	require.NoError(tb, lock.Unlock(tb.Context()))
	r.waitForVotes(tb, "unlock", lock.Name(), n)
}

// tokens is a token source that keeps what it gave.
type tokens struct {
	mu    sync.Mutex
	given []string
}

func (s *tokens) next() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = append(s.given, rand.Text())
	return s.given[len(s.given)-1], nil
}

func (s *tokens) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.given)
}
