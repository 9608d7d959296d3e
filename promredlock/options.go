package promredlock

import (
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Option changes the metrics of a [Collector].
type Option interface{ apply(*options) }

type option func(*options)

func (f option) apply(o *options) { f(o) }

type options struct {
	names     func(string) string
	durations []float64
	factor    float64
}

// WithNameLabel adds the label name to the metrics of acquires, held locks and losses. name returns its value for the name
// of a lock. It must not block or call the Collector. Each value makes about 100 series or more for each kind of lock,
// which stay until the program ends: map the names of all locks to a few values, such as invoice-4711 to invoice. The
// default, and nil, is no label.
func WithNameLabel(name func(lock string) string) Option {
	return option(func(o *options) { o.names = name })
}

// WithBuckets sets the upper bounds of the buckets of durations, in seconds and in any order: of acquires and their waits,
// rounds, nodes, extensions and unlocks. The default is 19 buckets, from 50 µs to 60 s.
func WithBuckets(seconds ...float64) Option {
	bounds := slices.DeleteFunc(slices.Clone(seconds), math.IsNaN)
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	return option(func(o *options) {
		if len(bounds) > 0 {
			o.durations = bounds
		}
	})
}

// WithNativeHistograms makes native histograms beside the buckets, for a Prometheus server that collects them. Each bucket
// is at most factor times as large as the one below: 1.1 is usual. A factor of 1 or less, the default, means none.
func WithNativeHistograms(factor float64) Option {
	return option(func(o *options) { o.factor = factor })
}

func (o options) histogram(name string, buckets []float64, help string) prometheus.HistogramOpts {
	opts := prometheus.HistogramOpts{Name: namespace + name, Help: help, Buckets: buckets}
	if o.factor > 1 {
		opts.NativeHistogramBucketFactor = o.factor
		opts.NativeHistogramMaxBucketNumber = 160
		opts.NativeHistogramMinResetDuration = time.Hour
	}
	return opts
}
