// Package client is a program that uses locks: a process of many workers, which take locks of all kinds, rely on them, and record
// what they do and see.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// Prefix is the key prefix of all locks.
const Prefix = "chaos:"

// taskKey tells a process that it is a client, and which one.
const taskKey = "QUORUMLOCK_CHAOS_CLIENT"

// Config says what a client process works with.
type Config struct {
	Name     string   // unique among the processes of a run
	Dir      string   // for its log, and for the tokens of detached locks, which all processes share
	URLs     []string // of the nodes
	Register string   // address of the Redis server with the registers
	Postgres string   // data source name of the database with the registers
	Workers  int
	Seed     uint64

	Timeout time.Duration   // of a node
	Guard   time.Duration   // of the restart guard; 0 is none
	TTLs    []time.Duration // one of which a lock gets
}

// Environ returns the environment of a process that is such a client.
func (c Config) Environ() []string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // there is nothing in it that JSON does not know
	}
	return append(os.Environ(), taskKey+"="+string(text))
}

// Order is what the process does next. It answers each with a line.
type Order struct {
	Do      string        // "work" on Names, with the history in History; "drain": begin no further turns; "pause": end all that is held, and close the history; "jump"; "open": new Lockers; "end": shut them down
	Names   []string      `json:",omitempty"`
	History string        `json:",omitempty"`
	By      time.Duration `json:",omitempty"` // jump: the clock of the leases
	URLs    []string      `json:",omitempty"` // open
}

// Kind is a kind of lock, as far as its users are concerned.
type Kind struct {
	Name    string           // the locks are called Name-0, Name-1 and so on
	Options []redlock.Option // of the Lockers that take them
	Pause   time.Duration    // between the turns of a worker, at most
	Workers int              // of each process, which take locks of this kind alone, and nobody else does; 0: all who have no kind of their own do
	Turn    func(ctx context.Context, w *Worker, name string)
}

// process is the state of a client process.
type process struct {
	config   Config
	kinds    map[string]Kind
	recorder *history.Recorder
	lease    *jumpingClock
	log      *slog.Logger

	mu        sync.Mutex
	lockers   map[string]*redlock.Locker // by the name of their kind
	opened    int                        // how often Lockers were made
	registers registers

	names []string
	drain context.CancelFunc // lets workers end their turns
	stop  context.CancelFunc // ends all calls; nil while nobody works
	busy  sync.WaitGroup
}

// Serve does the work of a client and ends the process, if it was started as one. Otherwise it returns at once.
func Serve(kinds []Kind) {
	text, ok := os.LookupEnv(taskKey)
	if !ok {
		return
	}
	p := &process{kinds: map[string]Kind{}, lease: &jumpingClock{system: clock.System()}}
	for _, k := range kinds {
		p.kinds[k.Name] = k
	}
	err := json.Unmarshal([]byte(text), &p.config)
	if err == nil {
		err = p.serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, p.config.Name+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (p *process) serve() (err error) {
	logFile, err := os.Create(filepath.Join(p.config.Dir, p.config.Name+".log"))
	if err != nil {
		return err
	}
	p.log = slog.New(slog.NewTextHandler(logFile, nil))
	if p.registers, err = openRegisters(p.config); err != nil {
		return err
	}
	if err := p.open(p.config.URLs); err != nil {
		return err
	}
	orders := json.NewDecoder(os.Stdin)
	for {
		var o Order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if err := p.follow(o); err != nil {
			return fmt.Errorf("%s: %w", o.Do, err)
		}
		fmt.Println(o.Do)
	}
	return nil
}

func (p *process) follow(o Order) error {
	switch o.Do {
	case "work":
		return p.work(o)
	case "drain":
		p.drain()
		return nil
	case "pause":
		return p.pause()
	case "jump":
		p.lease.jump(o.By)
		return nil
	case "open":
		return p.open(o.URLs)
	case "end":
		return errors.Join(p.pause(), p.shut(p.lockers))
	}
	return errors.New("unknown order")
}

// open makes a Locker of each kind for these nodes, and shuts those before down.
func (p *process) open(urls []string) error {
	options := []redlock.Option{
		redlock.WithKeyPrefix(Prefix), redlock.TTL(p.config.TTLs[len(p.config.TTLs)-1]), redlock.WithClock(p.lease),
		redlock.WithLogger(p.log), redlock.WithObserver(event.ObserverFunc(p.observe), event.Nodes), pool.WithTimeout(p.config.Timeout),
	}
	if p.config.Guard > 0 {
		options = append(options, pool.WithRestartGuard(p.config.Guard))
	}
	lockers := map[string]*redlock.Locker{}
	for name, kind := range p.kinds {
		locker, err := redlock.Open(urls, slices.Concat(options, kind.Options)...)
		if err != nil {
			return err
		}
		lockers[name] = locker
		if p.config.Guard > 0 {
			_ = locker.Ping(context.Background()) // from now on the nodes are in use
		}
	}
	p.mu.Lock()
	before := p.lockers
	p.lockers = lockers
	p.opened++
	p.mu.Unlock()
	return p.shut(before)
}

// shut waits for locks that are held, for a while.
func (p *process) shut(lockers map[string]*redlock.Locker) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, l := range lockers {
		err = errors.Join(err, l.Shutdown(ctx))
	}
	return err
}

// locker returns the Locker of a kind, and what identifies it.
func (p *process) locker(kind string) (l *redlock.Locker, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lockers[kind], fmt.Sprintf("%s/%s/%d", p.config.Name, kind, p.opened)
}

// observe notes which connections there are.
func (p *process) observe(e event.Event) {
	r := p.recording()
	if r == nil {
		return
	}
	switch e := e.(type) {
	case event.NodeDown:
		now := history.Now()
		r.Note(history.Op{Kind: history.Down, Start: now, End: now, Node: e.Node})
	case event.NodeUp:
		now := history.Now()
		r.Note(history.Op{Kind: history.Up, Start: now, End: now, Node: e.Node})
	}
}

func (p *process) recording() *history.Recorder {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.recorder
}

// work lets the workers begin.
func (p *process) work(o Order) error {
	recorder, err := history.NewRecorder(o.History, p.config.Name)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	turns, drain := context.WithCancel(ctx)
	p.mu.Lock()
	p.recorder = recorder
	p.mu.Unlock()
	p.names, p.drain, p.stop = o.Names, drain, stop
	p.busy.Go(func() { recorder.Stalls(ctx.Done()) })
	p.busy.Go(func() { noteUsage(recorder, ctx.Done()) })
	for i := range p.config.Workers {
		w := &Worker{process: p, recorder: recorder, number: i, names: p.share(i), Dice: rand.New(rand.NewPCG(p.config.Seed, uint64(i)))}
		if w.names != nil {
			p.busy.Go(func() { w.work(ctx, turns) })
		}
	}
	p.config.Seed++ // other dice for the next part
	return nil
}

// share returns the names that a worker takes, each as often as it is wanted.
func (p *process) share(number int) (names []string) {
	for _, kind := range slices.Sorted(maps.Keys(p.kinds)) {
		if n := p.kinds[kind].Workers; number >= n {
			number -= n
		} else {
			return p.namesOf(func(k Kind) bool { return k.Name == kind })
		}
	}
	return p.namesOf(func(k Kind) bool { return k.Workers == 0 })
}

func (p *process) namesOf(is func(Kind) bool) (names []string) {
	for _, name := range p.names {
		if kind, _, _ := strings.Cut(name, "-"); is(p.kinds[kind]) {
			names = append(names, name)
		}
	}
	return names
}

// pause ends all that is held, and the history.
func (p *process) pause() error {
	if p.stop == nil {
		return nil
	}
	p.stop()
	p.busy.Wait()
	p.stop = nil
	p.mu.Lock()
	r := p.recorder
	p.recorder = nil
	p.mu.Unlock()
	return r.Close()
}
