package stock

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

// taskEnv tells a process that it is one of the buyers', and what it has to do.
const taskEnv = "QUORUMLOCK_STOCK_BUYERS"

// task is what one process of buyers does.
type task struct {
	Nodes    []string
	Resource string
	Prefix   string // of the lock's name and of the keys
	Checked  bool
	TTL      time.Duration
	Timeout  time.Duration
	First    int // number of the first buyer; from 1
	Buyers   int
}

// event is what a process of buyers tells its parent, a line each. The parent answers with the buyer's number: go on.
type event struct {
	What  what
	Buyer int
	Token uint64 // between and refused
	Stock int    // between: what was read
	Seen  uint64 // refused: by which token
}

type what string

const (
	ready   what = "ready"   // of the process, whose number is 0; the parent answers when all are
	between what = "between" // reading and writing; the parent answers
	sold    what = "sold"
	refused what = "refused" // the buyer comes again
	soldOut what = "sold out"
)

// Serve does the work of a process of buyers and ends it, where [Run] has started it as one; elsewhere it returns at once. A program
// that calls Run has to call it first.
func Serve() {
	text, ok := os.LookupEnv(taskEnv)
	if !ok {
		return
	}
	var t task
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		err = t.serve(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve returns when all buyers have been served, or in ends: then they give back what they hold.
func (t task) serve(in io.Reader, out io.Writer) (err error) {
	nodes, err := pool.Open(t.Nodes, pool.WithTimeout(t.Timeout), pool.WithClientName(clientName))
	if err != nil {
		return err
	}
	locker, err := redlock.New(nodes, redlock.WithTTL(t.TTL), redlock.WithFencing(),
		redlock.WithFenceTTL(time.Minute)) // for as long counters stay where nobody is left to delete them
	if err != nil {
		return err
	}
	resource := &redis.Pool{MaxIdle: t.Buyers, Dial: func() (redis.Conn, error) { return dial(t.Resource) }}
	defer func() {
		err = errors.Join(err, locker.Close(), resource.Close())
		for _, node := range nodes {
			err = errors.Join(err, node.Close())
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	p := &party{first: t.First, out: json.NewEncoder(out), gates: make([]chan struct{}, 1+t.Buyers)}
	for i := range p.gates {
		p.gates[i] = make(chan struct{}, 1)
	}
	go func() { // to the end of the process
		defer cancel()
		p.listen(in)
	}()
	keys := keysOf(t.Prefix)
	p.shop = shop{locker: locker, lock: lockName(t.Prefix), resource: resource, till: unchecked{keys}, between: p.between}
	if t.Checked {
		p.shop.till = checked{keys}
	}
	if err := p.buyAll(ctx, t.Buyers); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// party is the buyers of one process.
type party struct {
	shop  shop
	first int
	gates []chan struct{} // gates[0] is that of the process, gates[i] of its i-th buyer

	mu  sync.Mutex
	out *json.Encoder
}

func (p *party) tell(e event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Encode(e)
}

// listen opens the gates whose numbers come in.
func (p *party) listen(in io.Reader) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		number, err := strconv.Atoi(lines.Text())
		if err != nil {
			return
		}
		if number > 0 {
			number -= p.first - 1
		}
		p.gates[number] <- struct{}{}
	}
}

// wait tells the parent something and waits for its answer.
func (p *party) wait(ctx context.Context, e event, gate int) error {
	if err := p.tell(e); err != nil {
		return err
	}
	select {
	case <-p.gates[gate]:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *party) between(ctx context.Context, buyer int, token uint64, stock int) error {
	return p.wait(ctx, event{What: between, Buyer: buyer, Token: token, Stock: stock}, buyer-p.first+1)
}

// buyAll has all buyers come at once. The first failure is that of all.
func (p *party) buyAll(ctx context.Context, buyers int) error {
	if err := p.wait(ctx, event{What: ready}, 0); err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var buying sync.WaitGroup
	for i := range buyers {
		buying.Go(func() {
			if err := p.buy(ctx, p.first+i); err != nil {
				fail(err)
			}
		})
	}
	buying.Wait()
	return context.Cause(ctx)
}

// buy returns when the buyer has got an item, or all are sold. Who comes too late begins again.
func (p *party) buy(ctx context.Context, buyer int) error {
	for {
		err := p.shop.sell(ctx, buyer)
		var stale *fence.StaleError
		switch {
		case err == nil:
			return p.tell(event{What: sold, Buyer: buyer})
		case errors.Is(err, errSoldOut):
			return p.tell(event{What: soldOut, Buyer: buyer})
		case !errors.As(err, &stale):
			return fmt.Errorf("stock: buyer %d: %w", buyer, err)
		}
		if err := p.tell(event{What: refused, Buyer: buyer, Token: stale.Token, Seen: stale.Seen}); err != nil {
			return err
		}
	}
}
