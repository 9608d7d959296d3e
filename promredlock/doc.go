// Package promredlock makes Prometheus metrics of the events of package redlock. A [Collector] observes a Locker, and a
// registry collects it.
//
//	collector := promredlock.New()
//	registry := prometheus.NewRegistry()
//	registry.MustRegister(collector)
//	locker, err := redlock.Open(urls, redlock.WithObserver(collector))
//
// Without groups of events, as here, the Collector receives all of them, and all metrics are complete. A program that
// wants fewer events names groups. Each metric needs some:
//   - event.Calls: the metrics redlock_acquire_* and redlock_extend_*, redlock_renewal_margin,
//     redlock_unlock_duration_seconds and redlock_handoffs_total;
//   - event.Ends: redlock_lock_hold_duration_seconds and redlock_lock_losses_total;
//   - event.Calls and event.Ends together: redlock_lock_held. With Calls alone it rises for ever, and with Ends alone it
//     falls below 0;
//   - protocol.Rounds: the metrics redlock_round_*, and redlock_fence_raises_total;
//   - protocol.Votes, the most events: redlock_node_duration_seconds. The alerts about answers of nodes need it;
//   - protocol.Turns: redlock_turns_total;
//   - event.Nodes: the other metrics redlock_node_*;
//   - event.Keys: redlock_stuck_keys_total, redlock_healed_keys_total and redlock_forced_unlocks_total;
//   - none: redlock_observer_dropped_total.
//
// Metrics of acquires and held locks have the label kind: "exclusive", "shared" or "slot" (redlock.Kind). [WithNameLabel]
// adds a label for the names of locks. [prometheus.WrapRegistererWith] adds labels of your own.
//
// https://github.com/quorumlock/quorumlock/blob/main/docs/telemetry.md has the table of metrics, their cost, a dashboard
// for Grafana (dashboard.json), and rules for alerts (alerts.yml; alerts-jobs.yml about the jobs of redlock run, and
// alerts-nodes.yml about what redlock web and redlock doctor see). These files lie beside this package.
package promredlock
