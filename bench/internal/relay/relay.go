// Package relay puts servers of this machine further away: a process of its own passes on what goes to them and what comes
// back, later, and in the same order.
package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/child"
)

// taskKey tells a process that it is a relay, and what it has to do.
const taskKey = "QUORUMLOCK_BENCH_RELAY"

type task struct {
	Servers []string      `json:"servers"`
	OneWay  time.Duration `json:"one_way_ns"`
}

// Relay is a process between programs and some servers.
type Relay struct {
	addrs   []string
	process *child.Child
}

// Launch runs the program's own file as a relay: see [Serve]. What is sent to one of its addresses reaches the server after
// the time oneWay, and the answer takes as long again: a round trip takes twice that and what the relay itself needs. The
// process ends by Close, when ctx ends, and with this program.
func Launch(ctx context.Context, servers []string, oneWay time.Duration) (*Relay, error) {
	process, err := child.Start(ctx, taskKey, task{Servers: servers, OneWay: oneWay})
	if err != nil {
		return nil, err
	}
	r := &Relay{process: process}
	if err := process.Receive(&r.addrs); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Addrs returns the address of each server, as it is reached through the relay.
func (r *Relay) Addrs() []string { return r.addrs }

// Close ends the process, and with it all connections.
func (r *Relay) Close() error {
	r.process.End()
	return nil
}

// Serve does the work of a relay and ends the process with the program that has launched it, where it was started as
// one; elsewhere it returns at once. A program that launches relays has to call it first.
func Serve() {
	var t task
	ok, err := child.Task(taskKey, &t)
	if !ok {
		return
	}
	if err == nil {
		err = t.serve()
	}
	child.Exit(err)
}

func (t *task) serve() error {
	orders := child.Orders()
	addrs := make([]string, len(t.Servers))
	for i, server := range t.Servers {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		addrs[i] = listener.Addr().String()
		go accept(listener, server, t.OneWay)
	}
	if err := json.NewEncoder(os.Stdout).Encode(addrs); err != nil {
		return err
	}
	for order := range orders { // which end with the process
		return fmt.Errorf("relay: it does not know the order %q", order)
	}
	return nil
}

// accept relays connections until the listener fails. A connection is there at once, only what is sent on it takes time.
func accept(listener net.Listener, server string, oneWay time.Duration) {
	for {
		near, err := listener.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		go func() {
			far, err := net.Dial("tcp", server)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				_ = near.Close()
				return
			}
			join(near.(*net.TCPConn), far.(*net.TCPConn), oneWay)
		}()
	}
}
