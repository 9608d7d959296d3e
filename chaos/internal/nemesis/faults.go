//go:build linux

package nemesis

import (
	"errors"
	"slices"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/chaos/internal/cluster"
)

// Sound returns the faults that locks have to survive.
func Sound() []Fault {
	return []Fault{
		{"freeze", Any, freezeServers},
		{"restart-empty", Guarded, restartEmpty},
		{"restart-empty", Guarded, restartEmpty},
		{"restart-empty", Guarded, restartEmpty},
		{"old-snapshot", Guarded, oldSnapshot},
		{"fail-over", Guarded, failOver},
		{"fail-over", Guarded, failOver},
		{"fail-over", Guarded, failOver},
		{"flush", Guarded, flush},
		{"kill", Lasting, killServers},
		{"kill", Lasting, killServers},
		{"kill", Lasting, killServers},
		{"partition", Any, partition},
		{"partition", Any, partition},
		{"hold", Any, hold},
		{"hold", Any, hold},
		{"hold", Any, hold},
		{"hold", Any, hold},
		{"delay", Any, delay},
		{"loss", Any, loss},
		{"cut", Any, cut},
		{"cut", Any, cut},
		{"pause", Any, command("pause", func(a *attack) []any { return []any{"CLIENT", "PAUSE", a.lasting.Milliseconds()} }, "CLIENT", "UNPAUSE")},
		{"script-flush", Any, command("script-flush", func(*attack) []any { return []any{"SCRIPT", "FLUSH"} })},
		{"client-kill", Any, command("client-kill", func(*attack) []any { return []any{"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"} })},
		{"client-kill", Any, command("client-kill", func(*attack) []any { return []any{"CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes"} })},
		{"oom", Any, command("oom", func(*attack) []any { return []any{"CONFIG", "SET", "maxmemory", "1"} }, "CONFIG", "SET", "maxmemory", "0")},
		{"maxclients", Any, maxClients},
		{"slow-script", Any, slowScript},
		{"no-scripts", Any, command("no-scripts", func(*attack) []any { return []any{"ACL", "SETUSER", "default", "-evalsha", "-eval"} }, "ACL", "SETUSER", "default", "+@all")},
		{"no-messages", Any, noMessages},
		{"stop-client", Any, stopClients},
		{"suspend-client", Any, suspendClients},
		{"kill-client", Any, killClient},
	}
}

func freezeServers(a *attack) error {
	servers := a.nodes
	if a.dice.IntN(8) == 0 {
		servers = []int{a.Register}
	}
	release, ok := a.take("server", servers...)
	if !ok {
		return nil
	}
	defer release()
	return a.during("freeze", servers, nil,
		func() error { return each(servers, func(j int) error { return a.Cluster.Server(j).Freeze() }) },
		func() error { return each(servers, func(j int) error { return a.Cluster.Server(j).Thaw() }) })
}

// quarantine makes it a minority mostly that forgets: with a restart guard nobody gets a lock while a majority is quarantined.
func (a *attack) quarantine() {
	if a.Guard > 0 && a.dice.IntN(4) > 0 {
		a.nodes = a.nodes[:min(len(a.nodes), len(a.Nodes)/2)]
	}
}

// restart ends servers without warning, does something while they are down, and starts them again.
func (a *attack) restart(what string, between func(*cluster.Server) error) error {
	a.quarantine()
	release, ok := a.take("server", a.nodes...)
	if !ok {
		return nil
	}
	defer release()
	return a.during(what, a.nodes, nil,
		func() error {
			return each(a.nodes, func(j int) error {
				s := a.Cluster.Server(j)
				s.Stop()
				return between(s)
			})
		},
		func() error { return each(a.nodes, func(j int) error { return a.Cluster.Server(j).Start() }) })
}

func restartEmpty(a *attack) error { return a.restart("restart-empty", (*cluster.Server).Wipe) }

func killServers(a *attack) error {
	return a.restart("kill", func(*cluster.Server) error { return nil })
}

// oldSnapshot puts a copy of some moments ago back.
func oldSnapshot(a *attack) error {
	release, ok := a.take("server", a.nodes...)
	if !ok {
		return nil
	}
	err := each(a.nodes, func(j int) error { return a.Cluster.Server(j).Snapshot() })
	wait(a.ctx, 2*a.lasting)
	release()
	return errors.Join(err, a.restart("old-snapshot", (*cluster.Server).Restore))
}

// failOver has nodes fail over behind their names: every other time without what they have done meanwhile.
func failOver(a *attack) error {
	a.quarantine()
	nodes := slices.DeleteFunc(slices.Clone(a.nodes), func(j int) bool { return !a.Cluster.HasStandby(j) })
	release, ok := a.take("server", nodes...)
	if !ok || len(nodes) == 0 {
		return nil
	}
	defer release()
	lags := func() error { return nil }
	if a.dice.IntN(2) == 0 {
		lags = func() error { return each(nodes, a.Cluster.Lag) }
	}
	return a.during("fail-over", nodes, nil, lags, func() error { return each(nodes, a.Cluster.FailOver) })
}

// flush has servers drop all keys and go on.
func flush(a *attack) error {
	a.quarantine()
	return command("flush", func(*attack) []any { return []any{"FLUSHALL"} })(a)
}

// command sends a command to the nodes, and another when the fault is over.
func command(what string, begin func(*attack) []any, end ...any) func(*attack) error {
	return func(a *attack) error {
		release, ok := a.take("server", a.nodes...)
		if !ok {
			return nil
		}
		defer release()
		if end == nil {
			a.lasting = 0
		}
		first := begin(a)
		return a.during(what, a.nodes, nil,
			func() error {
				return each(a.nodes, func(j int) error {
					_, err := a.Cluster.Server(j).Do(first[0].(string), first[1:]...)
					return err
				})
			},
			func() error {
				if end == nil {
					return nil
				}
				return each(a.nodes, func(j int) error {
					_, err := a.Cluster.Server(j).Do(end[0].(string), end[1:]...)
					return err
				})
			})
	}
}

// noMessages lets a server push nothing to those who connect meanwhile, until they have to connect again.
func noMessages(a *attack) error {
	set := func(j int, rules ...any) error {
		_, err := a.Cluster.Server(j).Do("ACL", append([]any{"SETUSER", "default"}, rules...)...)
		return err
	}
	reconnect := func(j int) {
		for i := range a.Clients {
			a.Cluster.Link(i, j).Cut()
		}
	}
	release, ok := a.take("server", a.nodes...)
	if !ok {
		return nil
	}
	defer release()
	return a.during("no-messages", a.nodes, nil, func() error {
		return each(a.nodes, func(j int) error {
			defer reconnect(j)
			if set(j, "-publish", "-client|tracking") == nil {
				return nil
			}
			return set(j, "-publish", "-client") // Redis 6 knows no rights to a part of a command
		})
	}, func() error {
		return each(a.nodes, func(j int) error {
			defer reconnect(j)
			return set(j, "+@all")
		})
	})
}

// maxClients lets a server take no further connection, and ends those that it has.
func maxClients(a *attack) error {
	release, ok := a.take("server", a.nodes...)
	if !ok {
		return nil
	}
	defer release()
	done := a.record("maxclients", a.nodes, nil)
	defer done()
	return each(a.nodes, func(j int) error {
		c, err := a.Cluster.Server(j).Conn() // later it would not get one
		if err != nil {
			return err
		}
		defer c.Close()
		limit, err := redis.Strings(c.Do("CONFIG", "GET", "maxclients"))
		if err != nil {
			return err
		}
		_, err = c.Do("CONFIG", "SET", "maxclients", 1)
		if err == nil {
			_, err = c.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}
		wait(a.ctx, a.lasting)
		_, last := c.Do("CONFIG", "SET", "maxclients", limit[1])
		return errors.Join(err, last)
	})
}

// slowScript keeps servers busy.
func slowScript(a *attack) error {
	release, ok := a.take("server", a.nodes...)
	if !ok {
		return nil
	}
	defer release()
	done := a.record("slow-script", a.nodes, nil)
	defer done()
	// Servers answer BUSY after 5 s, which is longer.
	const script = `local function now() local t = redis.call('time') return t[1] * 1000 + t[2] / 1000 end
		local begun = now() while now() - begun < tonumber(ARGV[1]) do end return 1`
	return each(a.nodes, func(j int) error {
		c, err := a.Cluster.Server(j).Conn() // which waits for as long as it takes
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Do("EVAL", script, 0, a.lasting.Milliseconds())
		return err
	})
}
