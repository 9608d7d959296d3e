// Record prints, as JSON, the stacks of the functions that calls of the library go through. Its argument is the address of a server without
// keys.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/dev/paths/traced"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// ttl is short, as nobody wants to wait long for renewals.
const ttl = 2 * time.Second

// settled is long enough for what is under way, so that it is in the same recording each time.
const settled = 300 * time.Millisecond

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: record HOST:PORT")
	}
	p := &program{ctx: context.Background(), address: os.Args[1], renewed: make(chan struct{}, 1)}
	paths := p.record()
	p.try(json.NewEncoder(os.Stdout).Encode(paths))
	if p.err != nil {
		log.Fatal(p.err)
	}
}

func (p *program) record() map[string][][]string {
	// A call that waits polls now and then, beside the pushes: not within an hour.
	locker := p.open(redlock.WithBackoff(time.Hour, time.Hour))
	for range 2 { // the first connects, and sends scripts by their source
		p.unlock(p.take(locker.TryLock, "name"))
		p.unlock(p.take(locker.TryLock, "shared", redlock.Shared()))
		p.both(locker)
	}
	paths := map[string][][]string{}
	var lock *redlock.Lock
	paths["TryLock"] = during(func() { lock = p.take(locker.TryLock, "name") })
	paths["Unlock"] = during(func() { p.unlock(lock) })
	paths["shared"] = during(func() { lock = p.take(locker.TryLock, "shared", redlock.Shared()) })
	p.unlock(lock)
	paths["all"] = during(func() { p.both(locker) })
	for range 2 { // the first asks the node to report changes
		paths["lost"], paths["freed"] = p.waits(func() { lock = p.take(locker.Lock, "taken") })
		p.unlock(lock)
	}
	p.close(locker)

	locker = p.open(redlock.WithObserver(event.ObserverFunc(p.observe)))
	lock = p.take(locker.TryLock, "first", redlock.RenewFor(redlock.NoLimit)) // connects, and asks the node to report changes
	p.renewals(1)
	p.unlock(lock)
	paths["renewal"] = during(func() {
		lock = p.take(locker.TryLock, "renewed", redlock.RenewFor(redlock.NoLimit))
		p.renewals(2)
	})
	p.unlock(lock)
	p.close(locker)
	return paths
}

// during returns the stacks of the functions that are entered while call runs, and in the moments after it.
func during(call func()) [][]string {
	return traced.During(func() {
		call()
		<-time.After(settled)
	})
}

// program calls the library until a call fails.
type program struct {
	ctx     context.Context
	address string // of the server
	renewed chan struct{}
	err     error // the first
}

func (p *program) try(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *program) open(opts ...redlock.Option) *redlock.Locker {
	locker, err := redlock.Open([]string{"redis://" + p.address}, append(opts, redlock.TTL(ttl))...)
	p.try(err)
	return locker
}

func (p *program) observe(e event.Event) {
	if e, is := e.(event.Extend); is && e.Renewal {
		select {
		case p.renewed <- struct{}{}:
		default:
		}
	}
}

// renewals waits until a lock has been renewed n times.
func (p *program) renewals(n int) {
	for ; n > 0 && p.err == nil; n-- {
		<-p.renewed
	}
}

func (p *program) close(locker *redlock.Locker) {
	if p.err == nil {
		p.try(locker.Close())
	}
}

func (p *program) take(call func(context.Context, string, ...redlock.LockOption) (*redlock.Lock, error), name string, opts ...redlock.LockOption) *redlock.Lock {
	if p.err != nil {
		return nil
	}
	lock, err := call(p.ctx, name, opts...)
	p.try(err)
	return lock
}

func (p *program) unlock(lock *redlock.Lock) {
	if p.err == nil {
		p.try(lock.Unlock(p.ctx))
	}
}

// both takes two names at once, and releases them.
func (p *program) both(locker *redlock.Locker) {
	if p.err != nil {
		return
	}
	locks, err := locker.TryLockAll(p.ctx, []string{"one", "two"})
	if p.try(err); err == nil {
		p.try(locks.Unlock(p.ctx))
	}
}

// do runs a command on the server.
func (p *program) do(cmd string, args ...any) string {
	c, err := redis.Dial("tcp", p.address)
	if p.try(err); err != nil {
		return ""
	}
	defer c.Close()
	reply, err := c.Do(cmd, args...)
	p.try(err)
	return fmt.Sprintf("%s", reply)
}

// tracked returns of how many keys the server reports the next change.
func (p *program) tracked() (n int) {
	_, after, _ := strings.Cut(p.do("INFO", "stats"), "tracking_total_keys:")
	_, err := fmt.Sscan(after, &n)
	p.try(err)
	return n
}

// waits runs a call that takes a lock which another process has, and deletes that when the server has been asked to report changes. It
// returns the stacks before and after that.
func (p *program) waits(call func()) (lost, freed [][]string) {
	p.do("SET", "taken", token.Random(token.NewOwner()), "PX", time.Hour.Milliseconds())
	before, ended := p.tracked(), make(chan struct{})
	lost = during(func() {
		go func() {
			defer close(ended)
			call()
		}()
		for p.err == nil && p.tracked() <= before {
			<-time.After(time.Millisecond)
		}
	})
	freed = during(func() {
		p.do("DEL", "taken")
		<-ended
	})
	return lost, freed
}
