package contention

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/child"
	"github.com/quorumlock/quorumlock/bench/internal/subject"
)

// taskKey tells a process that it is one of a Fleet's, and what it has to do.
const taskKey = "QUORUMLOCK_BENCH_CONTENTION"

// task is what one child does.
type task struct {
	Subject string        `json:"subject"`
	Addrs   []string      `json:"addrs"`
	Timeout time.Duration `json:"timeout_ns"`
	Names   []string      `json:"names"` // the locks'
	Waiters int           `json:"waiters"`
	First   uint64        `json:"first"` // see NewCrew
	Guard   string        `json:"guard"` // the file
}

// What parent and child say to each other, a line each. At last the child writes its Shift.
const (
	ready = "ready"
	start = "start"
	stop  = "stop"
)

// Serve does the work of a child and ends the process, where a Fleet has started it as one; elsewhere it returns at
// once. A program that launches a Fleet has to call it first, with the subjects that it has.
func Serve(subjects []subject.Subject) {
	var t task
	ok, err := child.Task(taskKey, &t)
	if !ok {
		return
	}
	if err == nil {
		err = t.serve(subjects, child.Orders(), os.Stdout)
	}
	child.Exit(err)
}

func (t *task) serve(subjects []subject.Subject, orders <-chan string, to io.Writer) (failure error) {
	at := slices.IndexFunc(subjects, func(s subject.Subject) bool { return s.Name == t.Subject })
	if at < 0 {
		return fmt.Errorf("contention: a child does not know the subject %q", t.Subject)
	}
	guard, err := OpenGuard(t.Guard, len(t.Names))
	if err != nil {
		return err
	}
	defer guard.Close()
	client, err := subjects[at].Open(subject.Setup{Addrs: t.Addrs, Callers: t.Waiters, Timeout: t.Timeout})
	if err != nil {
		return err
	}
	defer func() { failure = errors.Join(failure, client.Close()) }()
	crew, err := NewCrew(client, t.Names, t.Waiters, guard, t.First)
	if err != nil {
		return err
	}
	if err := crew.WarmUp(context.Background()); err != nil {
		return err
	}
	fmt.Fprintln(to, ready)
	if err := expect(orders, start); err != nil {
		return err
	}
	crew.Start(context.Background())
	order := expect(orders, stop)
	shift, err := crew.Stop()
	if err := errors.Join(order, err); err != nil {
		return err
	}
	return json.NewEncoder(to).Encode(shift)
}

func expect(orders <-chan string, want string) error {
	if got := <-orders; got != want {
		return fmt.Errorf("contention: the parent says %q instead of %q", got, want)
	}
	return nil
}
