package otelredlock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/quorumlock/otelredlock"
	"github.com/quorumlock/quorumlock/redlock"
)

// The program sets its providers up as usual, and the Observer takes them.
func Example() {
	var urls []string
	for range 3 {
		server, err := miniredis.Run() // a Redis server inside the program, for the example
		if err != nil {
			log.Fatal(err)
		}
		defer server.Close()
		urls = append(urls, "redis://"+server.Addr())
	}
	spans := tracetest.NewInMemoryExporter() // in a program, an exporter such as otlptracegrpc
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	ctx := context.Background()
	bill := func(context.Context) error { return nil }

	err := func() error {
		observer, err := otelredlock.New() // takes the providers of otel.SetTracerProvider and otel.SetMeterProvider
		if err != nil {
			return err
		}
		locker, err := redlock.Open(urls, redlock.WithObserver(observer))
		if err != nil {
			return err
		}
		defer locker.Close() // waits for the last spans
		ctx, span := otel.Tracer("billing").Start(ctx, "bill")
		defer span.End()
		return locker.Do(ctx, "invoice-4711", func(ctx context.Context, _ *redlock.Lock) error { return bill(ctx) })
	}()
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range spans.GetSpans() {
		if s.SpanKind == trace.SpanKindInternal && s.Name != "redlock wait" { // the others are for a command to a node each
			fmt.Println(s.Name)
		}
	}
	// Unordered output:
	// redlock acquire
	// redlock hold
	// redlock unlock
	// bill
}
