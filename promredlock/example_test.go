package promredlock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorumlock/quorumlock/promredlock"
	"github.com/quorumlock/quorumlock/redlock"
)

// The handler of promhttp serves what the registry gathers.
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

	collector := promredlock.New()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	locker, err := redlock.Open(urls, redlock.WithObserver(collector))
	if err != nil {
		log.Fatal(err)
	}
	err = locker.Do(context.Background(), "invoice-4711", func(ctx context.Context, lock *redlock.Lock) error {
		return nil // bill
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := locker.Close(); err != nil { // waits for the observer
		log.Fatal(err)
	}

	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "redlock_lock_hold_duration_seconds" {
			metric := family.GetMetric()[0]
			fmt.Println(metric.GetLabel()[0].GetValue(), metric.GetHistogram().GetSampleCount())
		}
	}
	// Output: released 1
}
