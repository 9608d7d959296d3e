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

// WithTracerProvider sets what makes spans. The default, also for nil, is the global one. With that of package
// go.opentelemetry.io/otel/trace/noop nothing is kept for spans.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return option(func(o *options) {
		if provider != nil {
			o.tracers = provider
		}
	})
}

// WithMeterProvider sets what makes metrics. The default, also for nil, is the global one.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return option(func(o *options) {
		if provider != nil {
			o.meters = provider
		}
	})
}

// WithNameAttribute adds the attribute redlock.name to spans, and to the metrics of acquires, of held locks, of their durations
// and of losses. name returns its value for the name of a lock; it must not block, and may be called by several goroutines. For
// the metrics each value makes series of its own, which stay until the program ends: so name has to map the names of all locks
// to a few values, for example invoice-4711 to invoice. Without the option, and with nil, nothing has the name of a lock.
func WithNameAttribute(name func(lock string) string) Option {
	return option(func(o *options) { o.names = name })
}
