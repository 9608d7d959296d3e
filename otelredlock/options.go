package otelredlock

import (
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Option changes what an [Observer] does.
type Option interface{ apply(*options) }

type option func(*options)

func (f option) apply(o *options) { f(o) }

type options struct {
	tracers trace.TracerProvider
	meters  metric.MeterProvider
	names   func(string) string
}

func newOptions(opts []Option) (options, error) {
	o := options{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider()}
	for _, opt := range opts {
		if opt == nil {
			return o, errors.New("otelredlock: nil option")
		}
		opt.apply(&o)
	}
	return o, nil
}

// WithTracerProvider sets the provider of spans. The default, also for nil, is the global one. With the provider of
// package go.opentelemetry.io/otel/trace/noop the Observer keeps nothing for spans.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return option(func(o *options) {
		if provider != nil {
			o.tracers = provider
		}
	})
}

// WithMeterProvider sets the provider of metrics. The default, also for nil, is the global one.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return option(func(o *options) {
		if provider != nil {
			o.meters = provider
		}
	})
}

// WithNameAttribute adds the attribute redlock.name to spans, and to the metrics of acquires, held locks and losses. name
// returns its value for the name of a lock. It must not block, and may be called by several goroutines. Each value makes
// series that stay until the program ends: map the names of all locks to a few values, such as invoice-4711 to invoice.
// The default, and nil, is no attribute.
func WithNameAttribute(name func(lock string) string) Option {
	return option(func(o *options) { o.names = name })
}
