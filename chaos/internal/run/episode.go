//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/client"
	"github.com/quorumlock/quorumlock/chaos/internal/failover"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
	"github.com/quorumlock/quorumlock/chaos/internal/kind"
	"github.com/quorumlock/quorumlock/chaos/internal/nemesis"
)

// Episode lets clients work, and faults happen, and checks the history. Procedure may be nil.
func (w *World) Episode(ctx context.Context, procedure *nemesis.Procedure) (Report, error) {
	w.episode++
	recorder, err := history.NewRecorder(w.history(history.Nemesis), history.Nemesis)
	if err != nil {
		return Report{}, err
	}
	names := w.begin()
	m := &nemesis.World{
		Cluster: w.cluster, Nodes: w.nodes, Register: w.register, Durable: w.Durable, Longest: w.ttls[len(w.ttls)-1],
		Guard: w.guard(), History: recorder, Log: w.logf, Prefix: client.Prefix, Names: names,
	}
	for i := range clients {
		m.Clients = append(m.Clients, machine{w, i})
	}
	var others sync.WaitGroup
	recording, stopRecording := context.WithCancel(ctx)
	others.Go(func() { recorder.Stalls(recording.Done()) })
	err = w.work()
	w.worked = history.Now()
	strangers, stop := context.WithCancel(ctx)
	for i, name := range names {
		if kind.Of(w.Kinds, name).Strangers {
			dice := w.newDice(i)
			others.Go(func() { m.Stranger(strangers, dice, name, i) })
		}
	}
	var failedOver failover.Result
	if err == nil {
		failedOver, err = w.trouble(ctx, m, procedure)
	}
	err = errors.Join(err, w.drain(ctx))
	stop()
	stopRecording()
	others.Wait()
	w.nodes = m.Nodes
	err = errors.Join(err, w.pause(), w.noteLeft(recorder), recorder.Close())
	if err != nil {
		return Report{}, err
	}
	r, err := w.check()
	r.FailOver = failedOver
	return r, err
}

// hot is how much more the most wanted name of one kind is wanted in an episode, so that many wait for it in each process.
const hot = 120

// begin chooses the names of an episode. Some are listed more often, so that they are taken more often.
func (w *World) begin() []string {
	var names []string
	w.names = nil
	for i, k := range w.Kinds {
		for j, times := range k.Wanted {
			if j == 0 && times > k.Wanted[1] && i == (w.episode-1)%len(w.Kinds) {
				times += hot
			}
			name := fmt.Sprintf("%s-%d-%d", k.Name, w.episode, j)
			names = append(names, name)
			w.names = append(w.names, slices.Repeat([]string{name}, times)...)
		}
	}
	return names
}

// mood is how much fails in an episode.
type mood struct {
	atOnce int           // faults, at most
	pause  time.Duration // between two, at most
	calm   time.Duration // after the last
	drain  time.Duration // how long nobody begins anything: all who wait have to get their lock
}

// moods follow each other. With few faults or none, more can be said about what has to happen.
var moods = [...]mood{
	{atOnce: 2, pause: 2 * time.Second, calm: 4 * time.Second, drain: 12 * time.Second},
	{calm: 8 * time.Second, drain: 6 * time.Second},
	{atOnce: 1, pause: 4 * time.Second, calm: 4 * time.Second, drain: 12 * time.Second},
	{calm: 8 * time.Second, drain: 6 * time.Second},
}

func (w *World) mood() mood {
	if w.Break != nil {
		return moods[0]
	}
	return moods[(w.episode-w.Before-1)%len(moods)]
}

// trouble lets faults happen for a while.
func (w *World) trouble(ctx context.Context, m *nemesis.World, procedure *nemesis.Procedure) (done failover.Result, err error) {
	if procedure != nil {
		return done, errors.Join(procedure.Run(ctx, m, w.reopen), ctx.Err())
	}
	faults, mood := w.Faults, w.mood()
	if w.Break != nil {
		faults = w.Break.Faults
	}
	limited, cancel := context.WithTimeout(ctx, w.Lasting)
	defer cancel()
	if w.failover != nil {
		if mood.atOnce > 0 {
			done, err = m.Waves(limited, w.newDice(0), w.failover, w.FailOver.Faults, mood.atOnce)
		}
		wait(ctx, mood.calm)
		return done, errors.Join(err, ctx.Err())
	}
	failures := make([]error, mood.atOnce)
	var all sync.WaitGroup
	for i := range failures {
		if len(faults) > 0 {
			dice := w.newDice(i)
			all.Go(func() { failures[i] = m.Run(limited, dice, faults, mood.pause) })
		}
	}
	if mood.atOnce > 0 {
		<-limited.Done()
	}
	all.Wait()
	wait(ctx, mood.calm)
	return done, errors.Join(append(failures, ctx.Err())...)
}

// drain lets the clients end what they have begun, while nothing fails.
func (w *World) drain(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drained = history.Now()
	err := w.all(func(p *process) error { return p.order(client.Order{Do: "drain"}) })
	wait(ctx, w.mood().drain)
	return errors.Join(err, ctx.Err())
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (w *World) newDice(i int) *rand.Rand { return rand.New(rand.NewPCG(w.dice.Uint64(), uint64(i))) }

func (w *World) history(client string) string {
	return filepath.Join(w.Dir, fmt.Sprintf("%s.%d.history", client, w.episode))
}

func (w *World) logf(format string, args ...any) {
	at := time.Duration(history.Now() - w.began).Seconds()
	fmt.Fprintf(w.Out, "%8.3f  %s\n", at, fmt.Sprintf(format, args...))
}

// work lets the clients begin.
func (w *World) work() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = w.episode
	return w.all(func(p *process) error { return p.order(w.workOrder(p)) })
}

func (w *World) workOrder(p *process) client.Order {
	return client.Order{Do: "work", Names: w.names, History: w.history(p.config.Name)}
}

func (w *World) pause() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = 0
	return w.all(func(p *process) error { return p.order(client.Order{Do: "pause"}) })
}

// reopen gives the clients another list of nodes, one after the other.
func (w *World) reopen(nodes []int) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes = nodes
	for _, p := range w.clients {
		p.config.URLs = w.urls(p.index, nodes)
		err = errors.Join(err, p.order(client.Order{Do: "open", URLs: p.config.URLs}))
	}
	return err
}

// all does something with all clients at once.
func (w *World) all(do func(*process) error) error {
	failures := make([]error, len(w.clients))
	var group sync.WaitGroup
	for i, p := range w.clients {
		group.Go(func() { failures[i] = do(p) })
	}
	group.Wait()
	return errors.Join(failures...)
}
