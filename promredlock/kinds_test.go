package promredlock_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/promredlock"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// counted reports whether a metric has counted anything.
func counted(m *dto.Metric) bool {
	return m.GetCounter().GetValue()+m.GetGauge().GetValue() != 0 || m.GetHistogram().GetSampleCount() > 0
}

// These are the groups that the documentation of the package says each metric needs.
func TestCollector_HasTheMetricsOfTheKindsOfEventsThatItIsTold(t *testing.T) {
	all := map[string]bool{}
	for group, of := range map[event.Group]struct {
		events  []event.Event
		metrics []string
	}{
		event.Calls: {
			[]event.Event{event.Acquire{Kind: "exclusive", Op: event.OpAcquire}, event.Extend{Renewal: true, Validity: 1}, event.Unlock{Handoff: true}},
			[]string{
				"acquire_duration_seconds", "acquire_wait_seconds", "acquire_rounds", "extend_duration_seconds", "extend_validity_left_seconds",
				"renewal_margin", "unlock_duration_seconds", "handoffs_total", "lock_held",
			},
		},
		event.Ends:      {[]event.Event{event.End{Kind: "exclusive", Err: redlock.ErrGone}}, []string{"lock_hold_duration_seconds", "lock_losses_total", "lock_held"}},
		protocol.Rounds: {[]event.Event{protocol.Round{Split: true}, protocol.Raise{}}, []string{"round_duration_seconds", "round_split_votes_total", "fence_raises_total"}},
		protocol.Votes:  {[]event.Event{protocol.Vote{}}, []string{"node_duration_seconds"}},
		protocol.Turns:  {[]event.Event{protocol.Turn{}}, []string{"turns_total"}},
		event.Nodes: {
			[]event.Event{event.NodeDown{Failed: 1}, event.NodeUp{}, event.NodeDown{Err: nodeerr.ErrBroken}, event.NodeUp{}, event.Quarantine{Quarantined: true}},
			[]string{"node_up", "node_quarantined", "node_disconnects_total", "node_connect_failures_total"},
		},
		event.Keys: {[]event.Event{event.Stuck{}, event.Heal{}, event.ForceUnlock{}}, []string{"stuck_keys_total", "healed_keys_total", "forced_unlocks_total"}},
		"":         {[]event.Event{event.Drop{Count: 1}}, []string{"observer_dropped_total"}},
	} {
		c := promredlock.New()
		for _, e := range of.events {
			c.Observe(e)
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(c)
		families, err := registry.Gather()
		require.NoError(t, err)
		var have []string
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if counted(m) {
					have = append(have, f.GetName()[len("redlock_"):])
					all[f.GetName()] = true
					break
				}
			}
		}
		require.ElementsMatch(t, of.metrics, have, group)
	}
	require.Len(t, all, 24)
}

// The danger: a program that wants few events seems to hold more and more locks. The documentation warns of it.
func TestCollector_ThatIsNotToldOfEndsCountsEachLockAsHeld(t *testing.T) {
	t.Parallel()
	for want, groups := range map[string][]event.Group{
		"lock_held{kind=\"exclusive\"} 2\nlock_held{kind=\"shared\"} 0\nlock_held{kind=\"slot\"} 0":  {event.Calls},
		"lock_held{kind=\"exclusive\"} 0\nlock_held{kind=\"shared\"} 0\nlock_held{kind=\"slot\"} 0":  {event.Calls, event.Ends},
		"lock_held{kind=\"exclusive\"} -2\nlock_held{kind=\"shared\"} 0\nlock_held{kind=\"slot\"} 0": {event.Ends},
	} {
		c := promredlock.New()
		locker, err := redlock.Open(testredis.URLs(testredis.Real(t, 1)), redlock.WithObserver(c, groups...),
			pool.WithTimeout(time.Minute))
		require.NoError(t, err)
		for range 2 {
			lock, err := locker.TryLock(t.Context(), "name")
			require.NoError(t, err)
			require.NoError(t, lock.Unlock(t.Context()))
		}
		require.NoError(t, locker.Close()) // waits for the events
		compare(t, c, want, "lock_held")
	}
}
