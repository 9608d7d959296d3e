package promredlock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/promredlock"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

func TestCollector_CountsCallsThatAcquire(t *testing.T) {
	c := promredlock.New()
	taken := quorumError("acquire", redlock.ErrTaken)
	for _, e := range []event.Acquire{
		{Kind: "exclusive", Op: event.OpAcquire, Took: 2 * time.Second, Wait: time.Second, Rounds: 3},
		{Kind: "exclusive", Op: event.OpAcquire, Took: time.Second / 4, Reentered: true},
		{Kind: "exclusive", Op: event.OpAcquire, Try: true, Took: time.Second / 2, Rounds: 1},
		{Kind: "exclusive", Op: event.OpAcquire, Try: true, Took: time.Second, Rounds: 1, Err: taken},
		{Kind: "exclusive", Op: event.OpAcquire, Took: 4 * time.Second, Wait: 3 * time.Second, Rounds: 2, Err: fmt.Errorf("%w: %w", context.Canceled, taken)},
		{Kind: "exclusive", Op: event.OpAttach, Took: time.Second},
	} {
		c.Observe(e)
	}
	compare(t, c, `
		acquire_duration_seconds_sum{call="lock",kind="exclusive",outcome="acquired"} 2.25
		acquire_duration_seconds_count{call="lock",kind="exclusive",outcome="acquired"} 2
		acquire_duration_seconds_sum{call="try_lock",kind="exclusive",outcome="acquired"} 0.5
		acquire_duration_seconds_count{call="try_lock",kind="exclusive",outcome="acquired"} 1
		acquire_duration_seconds_sum{call="try_lock",kind="exclusive",outcome="taken"} 1
		acquire_duration_seconds_count{call="try_lock",kind="exclusive",outcome="taken"} 1
		acquire_duration_seconds_sum{call="lock",kind="exclusive",outcome="canceled"} 4
		acquire_duration_seconds_count{call="lock",kind="exclusive",outcome="canceled"} 1
		acquire_duration_seconds_sum{call="attach",kind="exclusive",outcome="acquired"} 1
		acquire_duration_seconds_count{call="attach",kind="exclusive",outcome="acquired"} 1
		acquire_wait_seconds_sum{kind="exclusive",outcome="acquired"} 1
		acquire_wait_seconds_count{kind="exclusive",outcome="acquired"} 1
		acquire_wait_seconds_sum{kind="exclusive",outcome="canceled"} 4
		acquire_wait_seconds_count{kind="exclusive",outcome="canceled"} 1
		acquire_rounds_sum{kind="exclusive",outcome="acquired"} 3
		acquire_rounds_count{kind="exclusive",outcome="acquired"} 1
		acquire_rounds_sum{kind="exclusive",outcome="canceled"} 2
		acquire_rounds_count{kind="exclusive",outcome="canceled"} 1
		lock_held{kind="exclusive"} 3
		lock_held{kind="shared"} 0
		lock_held{kind="slot"} 0
	`, "acquire_duration_seconds", "acquire_wait_seconds", "acquire_rounds", "lock_held")
}

func TestCollector_CountsHowLocksEnd(t *testing.T) {
	c := promredlock.New()
	compare(t, c, `
		lock_held{kind="exclusive"} 0
		lock_held{kind="shared"} 0
		lock_held{kind="slot"} 0
		lock_losses_total{end="gone",kind="shared"} 0
		lock_losses_total{end="expired",kind="shared"} 0
		lock_losses_total{end="gone",kind="slot"} 0
		lock_losses_total{end="expired",kind="slot"} 0
		lock_losses_total{end="gone",kind="exclusive"} 0
		lock_losses_total{end="expired",kind="exclusive"} 0
	`, "lock_held", "lock_losses_total", "lock_hold_duration_seconds")
	for range 6 {
		c.Observe(event.Acquire{Kind: "exclusive", Op: event.OpAcquire})
	}
	for i, e := range []event.End{
		{Err: redlock.ErrReleased}, {Err: redlock.ErrReleased, Detached: true}, {Err: redlock.ErrGone}, {Err: redlock.ErrExpired}, {Err: redlock.ErrExpired},
	} {
		e.Kind, e.Held = "exclusive", time.Duration(i+1)*time.Second
		c.Observe(e)
	}
	compare(t, c, `
		lock_held{kind="exclusive"} 1
		lock_held{kind="shared"} 0
		lock_held{kind="slot"} 0
		lock_losses_total{end="gone",kind="shared"} 0
		lock_losses_total{end="expired",kind="shared"} 0
		lock_losses_total{end="gone",kind="slot"} 0
		lock_losses_total{end="expired",kind="slot"} 0
		lock_losses_total{end="gone",kind="exclusive"} 1
		lock_losses_total{end="expired",kind="exclusive"} 2
		lock_hold_duration_seconds_sum{end="released",kind="exclusive"} 1
		lock_hold_duration_seconds_count{end="released",kind="exclusive"} 1
		lock_hold_duration_seconds_sum{end="detached",kind="exclusive"} 2
		lock_hold_duration_seconds_count{end="detached",kind="exclusive"} 1
		lock_hold_duration_seconds_sum{end="gone",kind="exclusive"} 3
		lock_hold_duration_seconds_count{end="gone",kind="exclusive"} 1
		lock_hold_duration_seconds_sum{end="expired",kind="exclusive"} 9
		lock_hold_duration_seconds_count{end="expired",kind="exclusive"} 2
	`, "lock_held", "lock_losses_total", "lock_hold_duration_seconds")
}

func TestCollector_CountsSharedLocksAndSlotsByThemselves(t *testing.T) {
	for kind, other := range map[string]string{"shared": "slot", "slot": "shared"} {
		c := promredlock.New()
		for range 3 {
			c.Observe(event.Acquire{Kind: kind, Op: event.OpAcquire, Rounds: 1})
		}
		c.Observe(event.Acquire{Kind: "exclusive", Op: event.OpAcquire, Rounds: 1})
		c.Observe(event.End{Kind: kind, Err: redlock.ErrGone})
		compare(t, c, strings.NewReplacer("KIND", kind, "OTHER", other).Replace(`
			acquire_rounds_sum{kind="exclusive",outcome="acquired"} 1
			acquire_rounds_count{kind="exclusive",outcome="acquired"} 1
			acquire_rounds_sum{kind="KIND",outcome="acquired"} 3
			acquire_rounds_count{kind="KIND",outcome="acquired"} 3
			lock_held{kind="exclusive"} 1
			lock_held{kind="KIND"} 2
			lock_held{kind="OTHER"} 0
			lock_hold_duration_seconds_sum{end="gone",kind="KIND"} 0
			lock_hold_duration_seconds_count{end="gone",kind="KIND"} 1
			lock_losses_total{end="gone",kind="exclusive"} 0
			lock_losses_total{end="expired",kind="exclusive"} 0
			lock_losses_total{end="gone",kind="KIND"} 1
			lock_losses_total{end="expired",kind="KIND"} 0
			lock_losses_total{end="gone",kind="OTHER"} 0
			lock_losses_total{end="expired",kind="OTHER"} 0
		`), "acquire_rounds", "lock_held", "lock_losses_total", "lock_hold_duration_seconds")
	}
}

func TestCollector_CountsExtensionsAndUnlocks(t *testing.T) {
	c := promredlock.New()
	for _, e := range []any{
		event.Extend{Took: time.Second, Left: 6 * time.Second, Validity: 9 * time.Second},
		event.Extend{Renewal: true, Took: 2 * time.Second, Left: 6 * time.Second, Validity: 8 * time.Second},
		event.Extend{Renewal: true, Took: 3 * time.Second, Left: 5 * time.Second, Validity: 5 * time.Second, Err: quorumError("extend", redlock.ErrNoQuorum)},
		event.Extend{Renewal: true, Took: 4 * time.Second, Err: redlock.ErrGone},
		event.Unlock{Took: time.Second},
		event.Unlock{Took: 2 * time.Second, Err: quorumError("unlock", redlock.ErrNotHeld)},
	} {
		c.Observe(e.(event.Event))
	}
	compare(t, c, `
		extend_duration_seconds_sum{outcome="done",renewal="false"} 1
		extend_duration_seconds_count{outcome="done",renewal="false"} 1
		extend_duration_seconds_sum{outcome="done",renewal="true"} 2
		extend_duration_seconds_count{outcome="done",renewal="true"} 1
		extend_duration_seconds_sum{outcome="no_quorum",renewal="true"} 3
		extend_duration_seconds_count{outcome="no_quorum",renewal="true"} 1
		extend_duration_seconds_sum{outcome="gone",renewal="true"} 4
		extend_duration_seconds_count{outcome="gone",renewal="true"} 1
		extend_validity_left_seconds_sum{renewal="false"} 6
		extend_validity_left_seconds_count{renewal="false"} 1
		extend_validity_left_seconds_sum{renewal="true"} 11
		extend_validity_left_seconds_count{renewal="true"} 3
		renewal_margin_sum 0.75
		renewal_margin_count 1
		unlock_duration_seconds_sum{outcome="released"} 1
		unlock_duration_seconds_count{outcome="released"} 1
		unlock_duration_seconds_sum{outcome="not_held"} 2
		unlock_duration_seconds_count{outcome="not_held"} 1
	`, "extend_duration_seconds", "extend_validity_left_seconds", "renewal_margin", "unlock_duration_seconds")
}

func TestCollector_CountsRoundsAndVotes(t *testing.T) {
	c := promredlock.New()
	for _, e := range []any{
		protocol.Vote{Op: event.OpAcquire, Addr: "a:1", Answer: protocol.AnswerYes, Took: time.Second},
		protocol.Vote{Op: event.OpAcquire, Addr: "a:1", Answer: protocol.AnswerNo, Took: time.Second},
		protocol.Vote{Op: event.OpUnlock, Addr: "b:2", Answer: protocol.AnswerUnknown, Took: time.Second},
		protocol.Round{Op: event.OpAcquire, Took: time.Second},
		protocol.Round{Op: event.OpAcquire, Took: time.Second, Err: quorumError("acquire", redlock.ErrTaken), Split: true},
		protocol.Round{Op: event.OpExtend, Took: time.Second, Err: quorumError("extend", redlock.ErrGone)},
		protocol.Round{Op: event.OpUnlock, Took: time.Second, Err: quorumError("unlock", redlock.ErrNotHeld)},
		protocol.Round{Op: event.OpUnlock, Took: time.Second, Err: quorumError("unlock", redlock.ErrNoQuorum)},
	} {
		c.Observe(e.(event.Event))
	}
	compare(t, c, `
		node_duration_seconds_sum{answer="yes",node="a:1",operation="acquire"} 1
		node_duration_seconds_count{answer="yes",node="a:1",operation="acquire"} 1
		node_duration_seconds_sum{answer="no",node="a:1",operation="acquire"} 1
		node_duration_seconds_count{answer="no",node="a:1",operation="acquire"} 1
		node_duration_seconds_sum{answer="unknown",node="b:2",operation="unlock"} 1
		node_duration_seconds_count{answer="unknown",node="b:2",operation="unlock"} 1
		round_split_votes_total 1
		round_duration_seconds_sum{operation="acquire",outcome="done"} 1
		round_duration_seconds_count{operation="acquire",outcome="done"} 1
		round_duration_seconds_sum{operation="acquire",outcome="taken"} 1
		round_duration_seconds_count{operation="acquire",outcome="taken"} 1
		round_duration_seconds_sum{operation="extend",outcome="gone"} 1
		round_duration_seconds_count{operation="extend",outcome="gone"} 1
		round_duration_seconds_sum{operation="unlock",outcome="no_quorum"} 1
		round_duration_seconds_count{operation="unlock",outcome="no_quorum"} 1
		round_duration_seconds_sum{operation="unlock",outcome="not_held"} 1
		round_duration_seconds_count{operation="unlock",outcome="not_held"} 1
	`, "node_duration_seconds", "round_duration_seconds", "round_split_votes_total")
}

func TestCollector_BeginsAtZeroWhatAlertsLookAt(t *testing.T) {
	c := promredlock.New()
	c.Observe(event.Acquire{Kind: "exclusive", Op: event.OpAcquire})
	c.Observe(event.Acquire{Kind: "exclusive", Op: event.OpAcquire, Try: true})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	require.NoError(t, err)
	var unobserved []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if h := metric.GetHistogram(); h != nil && h.GetSampleCount() == 0 {
				text := family.GetName()
				for _, pair := range metric.GetLabel() {
					text += " " + pair.GetValue()
				}
				unobserved = append(unobserved, text)
			}
		}
	}
	require.ElementsMatch(t, []string{
		"redlock_acquire_duration_seconds lock exclusive canceled",
		"redlock_acquire_duration_seconds try_lock exclusive taken",
		"redlock_acquire_duration_seconds try_lock exclusive no_quorum",
		"redlock_renewal_margin",
		"redlock_round_duration_seconds acquire done",
		"redlock_round_duration_seconds acquire taken",
		"redlock_round_duration_seconds acquire no_quorum",
		"redlock_round_duration_seconds extend done",
		"redlock_round_duration_seconds extend gone",
		"redlock_round_duration_seconds extend no_quorum",
		"redlock_round_duration_seconds unlock done",
		"redlock_round_duration_seconds unlock not_held",
		"redlock_round_duration_seconds unlock no_quorum",
	}, unobserved)
}

func TestCollector_CountsWhatIsRare(t *testing.T) {
	c := promredlock.New()
	metrics := []string{"turns_total", "handoffs_total", "fence_raises_total", "stuck_keys_total", "healed_keys_total", "forced_unlocks_total", "observer_dropped_total"}
	compare(t, c, `
		turns_total{direction="sent"} 0
		turns_total{direction="received"} 0
		handoffs_total 0
		stuck_keys_total 0
		healed_keys_total 0
		forced_unlocks_total 0
		observer_dropped_total 0
	`, slices.Clone(metrics)...)
	for _, e := range []any{
		protocol.Turn{}, protocol.Turn{}, protocol.Turn{Received: true}, protocol.Raise{Addr: "a:1"},
		event.Unlock{Handoff: true}, event.Unlock{}, event.Stuck{}, event.Heal{Addr: "a:1"}, event.Heal{Addr: "b:2"}, event.ForceUnlock{}, event.Drop{Count: 7},
	} {
		c.Observe(e.(event.Event))
	}
	compare(t, c, `
		turns_total{direction="sent"} 2
		turns_total{direction="received"} 1
		handoffs_total 1
		fence_raises_total{node="a:1"} 1
		stuck_keys_total 1
		healed_keys_total 2
		forced_unlocks_total 1
		observer_dropped_total 7
	`, metrics...)
}

func TestCollector_HasMetricsAsPrometheusRecommends(t *testing.T) {
	c := promredlock.New()
	for _, e := range everyEvent() {
		c.Observe(e)
	}
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestCollector_ServesSeveralLockersAndScrapesAtOnce(t *testing.T) {
	c := promredlock.New()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	var working sync.WaitGroup
	for range 4 {
		working.Go(func() {
			for range 100 {
				for _, e := range everyEvent() {
					c.Observe(e)
				}
			}
		})
		working.Go(func() {
			for range 20 {
				_, err := registry.Gather()
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	working.Wait()
	compare(t, c, `unlock_duration_seconds_sum{outcome="released"} 0.4
		unlock_duration_seconds_count{outcome="released"} 400`, "unlock_duration_seconds")
}

// everyEvent returns an event of each kind.
func everyEvent() []event.Event {
	now := time.Now()
	return []event.Event{
		event.NodeUp{At: now, Addr: "a:1"},
		protocol.Vote{Op: event.OpAcquire, Addr: "a:1", Answer: protocol.AnswerYes, Took: time.Millisecond},
		protocol.Raise{Addr: "a:1"},
		protocol.Round{Op: event.OpAcquire, Took: time.Millisecond},
		event.Acquire{Kind: "exclusive", Op: event.OpAcquire, Took: time.Millisecond, Rounds: 1},
		event.Extend{Renewal: true, Took: time.Millisecond, Left: time.Second, Validity: 2 * time.Second},
		protocol.Turn{},
		event.End{Kind: "exclusive", Err: redlock.ErrReleased, Held: time.Second},
		event.Unlock{Took: time.Millisecond},
		event.Stuck{},
		event.Heal{Addr: "a:1"},
		event.ForceUnlock{},
		event.Drop{Count: 1},
		event.NodeDown{At: now, Addr: "a:1", Err: nodeerr.ErrBroken},
	}
}

func TestCollector_AllocatesNothingForAnEvent(t *testing.T) {
	c := promredlock.New()
	for _, e := range everyEvent() {
		c.Observe(e)
		require.Zero(t, testing.AllocsPerRun(100, func() { c.Observe(e) }), "%T", e)
	}
}

func BenchmarkCollector(b *testing.B) {
	c := promredlock.New()
	for _, e := range everyEvent() {
		b.Run(strings.TrimPrefix(fmt.Sprintf("%T", e), "redlock."), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Observe(e)
			}
		})
	}
}
