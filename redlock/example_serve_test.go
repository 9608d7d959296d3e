package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// answerUntil answers requests until ctx ends. Those under way have 15 s, and then the functions of Do have 5 s to stop.
func answerUntil(ctx context.Context, listener net.Listener, mux *http.ServeMux, locker *redlock.Locker) error {
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {
		if err := locker.Ping(r.Context()); err != nil {
			log.Print(err) // names the servers that fail
			http.Error(w, "no majority of the servers grants locks", http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Handler: mux}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done(): // of signal.NotifyContext, for example
	}
	requests, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	err := server.Shutdown(requests)
	locks, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, locker.Shutdown(locks))
}

func ExampleLocker_Shutdown() {
	servers, urls, stop := startServers(3)
	defer stop()
	locker := openLocker(urls)
	log.SetOutput(io.Discard)
	defer log.SetOutput(os.Stderr)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- answerUntil(ctx, listener, http.NewServeMux(), locker) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ready := func() {
		response, err := client.Get("http://" + listener.Addr().String() + "/ready")
		if err != nil {
			log.Fatal(err)
		}
		_ = response.Body.Close()
		fmt.Println(response.StatusCode)
	}

	ready()
	servers[0].SetError("READONLY You can't write against a read only replica.")
	servers[1].SetError("READONLY You can't write against a read only replica.")
	ready()
	cancel()
	fmt.Println(<-done)

	// Output:
	// 200
	// 503
	// <nil>
}
