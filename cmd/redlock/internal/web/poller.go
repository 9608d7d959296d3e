package web

import (
	"context"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
)

// snapshot is what was found out at one time. It is not changed any more.
type snapshot struct {
	At      time.Time // as of which TTLs count
	Nodes   []health  // Nodes[i] is about the i-th node
	Listing *survey.Listing
	Err     error // why the Listing does not come from a majority
}

// poller asks the nodes again and again while somebody looks at the page: one for all browsers.
type poller struct {
	list     func(context.Context) (*survey.Listing, error)
	interval time.Duration
	probes   []*probe
	wake     chan struct{} // holds one element: somebody looks

	mu      sync.Mutex
	until   time.Time     // somebody looks until then
	current *snapshot     // nil before the first
	next    chan struct{} // closed when there is another
	history *history
}

func newPoller(config Config) *poller {
	p := &poller{list: config.List, interval: config.Interval, wake: make(chan struct{}, 1), next: make(chan struct{}), history: newHistory()}
	for _, server := range config.Servers {
		p.probes = append(p.probes, &probe{server: server, timeout: config.Timeout})
	}
	return p
}

// patience is for how long a look at the page is worth asking the nodes.
func (p *poller) patience() time.Duration { return 3*p.interval + 5*time.Second }

// look notes that somebody looks at the page.
func (p *poller) look() {
	p.mu.Lock()
	p.until = time.Now().Add(p.patience())
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// watched reports whether somebody looks at the page.
func (p *poller) watched() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.until)
}

// run asks the nodes while somebody looks, until ctx ends.
func (p *poller) run(ctx context.Context) {
	defer func() {
		for _, probe := range p.probes {
			probe.close()
		}
	}()
	ticker := time.NewTicker(p.interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if !p.watched() {
			for _, probe := range p.probes {
				probe.close()
			}
			select {
			case <-p.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		p.publish(p.gather(ctx))
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// gather asks every node how it is, and then what locks there are.
func (p *poller) gather(ctx context.Context) *snapshot {
	s := &snapshot{Nodes: make([]health, len(p.probes))}
	var asking sync.WaitGroup
	for i, probe := range p.probes {
		asking.Go(func() { s.Nodes[i] = probe.ask(ctx) })
	}
	asking.Wait()
	s.Listing, s.Err = p.list(ctx)
	s.At = time.Now()
	return s
}

func (p *poller) publish(s *snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.history.record(s.At, s.Listing, p.patience())
	p.current = s
	close(p.next)
	p.next = make(chan struct{})
}

// fresh returns what the nodes have answered lately. It waits for their answers, at most until ctx ends; then it returns what is
// known, nil if that is nothing.
func (p *poller) fresh(ctx context.Context) *snapshot {
	p.mu.Lock()
	s, next := p.current, p.next
	p.mu.Unlock()
	p.look()
	if s != nil && time.Since(s.At) < 2*p.interval {
		return s
	}
	select {
	case <-next:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}
