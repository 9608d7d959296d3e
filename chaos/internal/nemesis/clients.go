//go:build linux

package nemesis

import (
	"errors"
	"time"
)

// stopClients stops processes. They do not know it when they go on.
func stopClients(a *attack) error {
	release, ok := a.take("client", a.clients...)
	if !ok {
		return nil
	}
	defer release()
	if a.dice.IntN(3) == 0 {
		a.lasting += a.Longest // all that they held is over
	}
	return a.during("stop-client", nil, a.clients,
		func() error { return each(a.clients, func(i int) error { return a.Clients[i].Freeze() }) },
		func() error { return each(a.clients, func(i int) error { return a.Clients[i].Thaw() }) })
}

// suspendClients is a machine that sleeps: when its processes go on, more time has passed than their timers know.
func suspendClients(a *attack) error {
	release, ok := a.take("client", a.clients...)
	if !ok {
		return nil
	}
	defer release()
	ahead := time.Duration(a.dice.Int64N(int64(2 * a.Longest)))
	return a.during("suspend-client", nil, a.clients,
		func() error { return each(a.clients, func(i int) error { return a.Clients[i].Freeze() }) },
		func() error {
			return each(a.clients, func(i int) error { return errors.Join(a.Clients[i].Thaw(), a.Clients[i].Jump(ahead)) })
		})
}

func killClient(a *attack) error {
	a.clients = a.clients[:1]
	release, ok := a.take("client", a.clients...)
	if !ok {
		return nil
	}
	defer release()
	done := a.record("kill-client", nil, a.clients)
	defer done()
	return a.Clients[a.clients[0]].Kill()
}
