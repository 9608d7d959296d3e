package subject

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/quorumlock/quorumlock/otelredlock"
	"github.com/quorumlock/quorumlock/promredlock"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// openObserved opens a Locker with an Observer that does nothing, and is notified of all events.
func openObserved(s Setup) (Client, error) {
	return openLocker(s, redlock.WithObserver(event.ObserverFunc(func(event.Event) {}), promredlock.New().Groups()...))
}

// openEnds opens a Locker with an Observer that wants to know of the ends of locks alone.
func openEnds(s Setup) (Client, error) {
	return openLocker(s, redlock.WithObserver(event.ObserverFunc(func(event.Event) {}), event.Ends))
}

func openPrometheus(s Setup) (Client, error) {
	collector := promredlock.New()
	if err := prometheus.NewRegistry().Register(collector); err != nil {
		return nil, err
	}
	return openLocker(s, redlock.WithObserver(collector))
}

// openOtel measures everything and samples one trace of a hundred.
func openOtel(s Setup) (Client, error) { return openOtelSampling(s, 0.01) }

// openOtelTraced samples every trace.
func openOtelTraced(s Setup) (Client, error) { return openOtelSampling(s, 1) }

func openOtelSampling(s Setup, share float64) (Client, error) {
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.TraceIDRatioBased(share)), sdktrace.WithBatcher(discard{}))
	providers := shutdowns{meters.Shutdown, tracers.Shutdown}
	observer, err := otelredlock.New(otelredlock.WithMeterProvider(meters), otelredlock.WithTracerProvider(tracers))
	if err != nil {
		return nil, errors.Join(err, providers.shutdown())
	}
	client, err := openLocker(s, redlock.WithObserver(observer))
	if err != nil {
		return nil, errors.Join(err, providers.shutdown())
	}
	return &otelClient{client, providers}, nil
}

// discard is an exporter that sends spans nowhere.
type discard struct{}

func (discard) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                             { return nil }

type shutdowns []func(context.Context) error

func (s shutdowns) shutdown() (err error) {
	for _, shutdown := range s {
		err = errors.Join(err, shutdown(context.Background()))
	}
	return err
}

type otelClient struct {
	Client
	providers shutdowns
}

func (c *otelClient) Close() error { return errors.Join(c.Client.Close(), c.providers.shutdown()) }
