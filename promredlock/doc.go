// Package promredlock makes Prometheus metrics of what package redlock does: a [Collector] observes a Locker, and a registry
// collects it.
//
//	collector := promredlock.New()
//	prometheus.MustRegister(collector)
//	locker, err := redlock.Open(urls, redlock.WithObserver(collector))
//
// Without kinds of events, as here, WithObserver tells the Collector of all, so that all metrics are complete. A program that wants
// fewer events names the others. Without event.Votes, the most events, there is no redlock_node_duration_seconds, and the alerts
// about answers of nodes are silent. Without event.Rounds there are no metrics of rounds and fences, without event.Turns, event.Nodes
// and event.Keys none of these. event.Calls and event.Ends belong together: redlock_lock_held is the difference.
//
// The names of the metrics begin with redlock_. Those of locks are no labels, see [WithNameLabel]. To add labels of your own,
// register with [prometheus.WrapRegistererWith].
//
// docs/telemetry.md has the table of metrics, a dashboard for Grafana (dashboard.json) and rules for alerts (alerts.yml), which
// lie beside this package.
package promredlock
