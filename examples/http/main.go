// Command http is a service that works on accounts, each under a lock of its own. Several instances of it
// may run, behind a load balancer.
//
//	redis-cli set '{account-7}:balance' 100
//	go run ./examples/http -nodes redis://a:6379,redis://b:6379,redis://c:6379 -data redis://d:6379
//	curl -i -d amount=5 http://127.0.0.1:8080/accounts/7/withdrawals
//
// What a client makes of these answers:
//
//	423 Locked               nothing was done   another request works on the account: send it again after Retry-After
//	503 Service Unavailable  nothing was done   the lock cannot be taken, mostly as too few servers answer: the same
//	500                      done, or not       the work has failed, or has lost its lock: look at the account first
//
// A load balancer asks /readyz, which is 200 while a majority of the lock servers answers. Whoever restarts
// processes that hang asks /healthz, which does not depend on any server: a restart would not bring one back.
//
// handler.go is the part to begin with. account.go is the work, whose writes carry a fencing token. This
// file starts and stops.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	nodes := flag.String("nodes", "redis://127.0.0.1:6379", "URLs of the Redis servers for the locks, with commas between them")
	data := flag.String("data", "redis://127.0.0.1:6379", "URL of the Redis server for the accounts")
	drain := flag.Duration("drain", 5*time.Second, "time for load balancers to see that this instance stops; a second signal ends it")
	flag.Parse()
	if err := run(*addr, strings.Split(*nodes, ","), *data, *drain); err != nil {
		log.Fatal(err)
	}
}

func run(addr string, nodes []string, data string, drain time.Duration) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)

	locker, err := redlock.Open(nodes, redlock.WithKeyPrefix("lock:"), redlock.WithFencing())
	if err != nil {
		return err
	}
	defer locker.Close()
	accounts := newAccounts(data)
	defer accounts.pool.Close()

	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", listener.Addr())
	s := &service{locker: locker, accounts: accounts}
	server := s.server()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-signals:
	}
	s.stopping.Store(true)
	select {
	case <-time.After(drain):
	case <-signals:
	}
	return stop(server, locker)
}

// server has no client send a request for ever, which would hold up the stop.
func (s *service) server() *http.Server {
	return &http.Server{Handler: s.routes(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
}

// stop ends the requests first, as they still need their locks.
func stop(server *http.Server, locker *redlock.Locker) error {
	requests, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	err := server.Shutdown(requests)
	// The contexts of the requests that are left end now, and their locks when they have returned.
	locks, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, locker.Shutdown(locks))
}
