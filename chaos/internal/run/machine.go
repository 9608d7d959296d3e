//go:build linux

package run

import (
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/client"
)

// machine is a client machine, as faults see it.
type machine struct {
	world *World
	index int
}

func (m machine) process() *process {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	return m.world.clients[m.index]
}

func (m machine) Name() string  { return m.process().config.Name }
func (m machine) Freeze() error { return m.process().child.Freeze() }
func (m machine) Thaw() error   { return m.process().child.Thaw() }

func (m machine) Jump(by time.Duration) error {
	return m.process().order(client.Order{Do: "jump", By: by})
}

// Kill ends the process, and starts another in its place.
func (m machine) Kill() error {
	w := m.world
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.clients[m.index]
	p.child.Kill()
	next, err := w.launch(m.index, w.nodes)
	if err != nil {
		return err
	}
	w.clients[m.index] = next
	if w.at == 0 {
		return nil
	}
	return next.order(w.workOrder(next))
}
