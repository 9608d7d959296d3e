package promredlock

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "redlock_"

// labels are the values of the labels of a series, in their order. Those beyond the last label are ignored.
type labels [4]string

// family is a metric with labels. It keeps the series that were used: a look-up allocates nothing.
type family[T any] struct {
	names    int // how many labels there are
	children map[labels]T
	create   func(values ...string) T
}

// of returns a series.
func (f *family[T]) of(values labels) T {
	if child, ok := f.children[values]; ok {
		return child
	}
	return f.add(values)
}

// has reports whether a series was made.
func (f *family[T]) has(values labels) bool {
	_, ok := f.children[values]
	return ok
}

// add makes a series. What it passes on escapes, so it is apart from of.
func (f *family[T]) add(values labels) T {
	valid := values
	for i, value := range values {
		valid[i] = text(value)
	}
	child := f.create(valid[:f.names]...)
	f.children[values] = child
	return child
}

// text returns a value as a label may have it: Prometheus refuses what is not UTF-8.
func text(value string) string { return strings.ToValidUTF8(value, "\uFFFD") }

func newFamily[T any](names []string, create func(values ...string) T) *family[T] {
	return &family[T]{names: len(names), children: map[labels]T{}, create: create}
}

func (c *Collector) histograms(o options, name string, buckets []float64, help string, names ...string) *family[prometheus.Observer] {
	vec := prometheus.NewHistogramVec(o.histogram(name, buckets, help), names)
	c.collectors = append(c.collectors, vec)
	return newFamily(names, vec.WithLabelValues)
}

func (c *Collector) histogram(o options, name string, buckets []float64, help string) prometheus.Histogram {
	h := prometheus.NewHistogram(o.histogram(name, buckets, help))
	c.collectors = append(c.collectors, h)
	return h
}

func (c *Collector) counters(name, help string, names ...string) *family[prometheus.Counter] {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: namespace + name, Help: help}, names)
	c.collectors = append(c.collectors, vec)
	return newFamily(names, vec.WithLabelValues)
}

func (c *Collector) counter(name, help string) prometheus.Counter {
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: namespace + name, Help: help})
	c.collectors = append(c.collectors, counter)
	return counter
}

func (c *Collector) gauges(name, help string, names ...string) *family[prometheus.Gauge] {
	vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: namespace + name, Help: help}, names)
	c.collectors = append(c.collectors, vec)
	return newFamily(names, vec.WithLabelValues)
}
