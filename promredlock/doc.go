// Package promredlock makes Prometheus metrics of what package redlock does: a [Collector] observes a Locker, and a registry
// collects it.
//
//	collector := promredlock.New()
//	prometheus.MustRegister(collector)
//	locker, err := redlock.Open(urls, redlock.WithObserver(collector))
//
// The names of the metrics begin with redlock_. Those of locks are no labels, see [WithNameLabel]. To add labels of your own,
// register with [prometheus.WrapRegistererWith].
//
// docs/telemetry.md has the table of metrics, a dashboard for Grafana (dashboard.json) and rules for alerts (alerts.yml), which
// lie beside this package.
package promredlock
