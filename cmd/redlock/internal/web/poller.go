package web

import (
	"context"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
)

// snapshot is what was found out lately. It is not changed any more.
type snapshot struct {
	Began   time.Time       // from when on it was found out
	Asked   time.Time       // as of which the nodes are so
	Nodes   []health        // Nodes[i] is about the i-th node
	At      time.Time       // as of which the Listing is and TTLs count; zero before the first one
	Listing *survey.Listing // nil before the first one
	Err     error           // why the Listing does not come from a majority
}

// answers reports whether the i-th node answers, also if it has not listed all.
func (s *snapshot) answers(i int) bool { return s.Nodes[i].Err == nil }

// answering returns how many nodes answer.
func (s *snapshot) answering() (n int) {
	for i := range s.Nodes {
		if s.answers(i) {
			n++
		}
	}
	return n
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
		p.probes = append(p.probes, newProbe(&config, server))
	}
	return p
}

// patience is for how long a look at the page is worth asking the nodes: a page that nobody sees comes back each 30 s, or once in
// a minute if the browser wants it so (Chromium does after five minutes).
func (p *poller) patience() time.Duration { return p.pause() + 85*time.Second }

// pause is the longest time from one listing to the next in which the locks count as watched.
func (p *poller) pause() time.Duration { return 3*p.interval + 5*time.Second }

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
	for ctx.Err() == nil {
		if p.watched() {
			p.attend(ctx)
			continue
		}
		select {
		case <-p.wake:
		case <-ctx.Done():
		}
	}
}

// attend asks the nodes until nobody looks any more: how they are, and beside that what they hold, which may take longer. Then it
// forgets both: they are outdated when somebody looks again.
func (p *poller) attend(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	var listing sync.WaitGroup
	defer func() {
		stop()
		listing.Wait()
		for _, probe := range p.probes {
			probe.close()
			probe.last.Latencies = nil // the line has no place for the time until somebody looks again
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.current = nil
	}()
	first := true
	p.each(ctx, func() {
		if !p.watched() {
			stop()
			return
		}
		p.gather(ctx)
		if first {
			first = false
			listing.Go(func() { p.each(ctx, func() { p.survey(ctx) }) })
		}
	})
}

// each calls do in each interval until ctx ends.
func (p *poller) each(ctx context.Context, do func()) {
	ticker := time.NewTicker(p.interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		do()
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// gather asks every node how it is.
func (p *poller) gather(ctx context.Context) {
	nodes := make([]health, len(p.probes))
	var asking sync.WaitGroup
	for i, probe := range p.probes {
		asking.Go(func() { nodes[i] = probe.ask(ctx) })
	}
	asking.Wait()
	p.publish(func(s *snapshot) { s.Asked, s.Nodes = time.Now(), nodes })
}

// survey asks what locks there are.
func (p *poller) survey(ctx context.Context) {
	began := time.Now()
	listing, err := p.list(ctx)
	if ctx.Err() != nil {
		return
	}
	p.publish(func(s *snapshot) {
		s.At, s.Listing, s.Err = time.Now(), listing, err
		p.history.record(s.At, began, listing, p.pause())
	})
}

// publish changes what is known.
func (p *poller) publish(change func(*snapshot)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := snapshot{Began: time.Now()}
	if p.current != nil {
		s = *p.current
	}
	change(&s)
	p.current = &s
	close(p.next)
	p.next = make(chan struct{})
}

// fresh returns what the nodes have answered lately. If they have only begun to be asked, it waits for their answers, for what they
// hold a short time only, at most until ctx ends; then it returns what is known, nil if that is nothing.
func (p *poller) fresh(ctx context.Context) *snapshot {
	p.look()
	for {
		p.mu.Lock()
		s, next := p.current, p.next
		p.mu.Unlock()
		var enough <-chan time.Time
		if s != nil {
			wait := listingWait - time.Since(s.Began)
			if !s.At.IsZero() || wait <= 0 {
				return s
			}
			enough = time.After(wait)
		}
		select {
		case <-next:
		case <-enough:
		case <-ctx.Done():
			return s
		}
	}
}

// listingWait is how long a page waits for the locks when it could show the nodes already.
const listingWait = 2 * time.Second

// examiner has the doctor examine the nodes: when somebody looks at the page first, on demand, and now and then.
type examiner struct {
	examine func(context.Context) (*doctor.Report, error)
	every   time.Duration // 0 means only first and on demand

	mu      sync.Mutex
	running bool
	last    examination
	working sync.WaitGroup
}

// examination is what the doctor has found last.
type examination struct {
	Running bool
	Began   time.Time
	At      time.Time // when it ended; zero before the first has
	Report  *doctor.Report
	Err     error
}

// visit begins an examination if it is time for one, or if it is demanded.
func (e *examiner) visit(ctx context.Context, demanded bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := e.last.At.IsZero()
	due := e.every > 0 && time.Since(e.last.At) >= e.every
	if e.running || ctx.Err() != nil || !first && !due && !demanded {
		return
	}
	e.running = true
	e.working.Go(func() {
		began := time.Now()
		report, err := e.examine(ctx)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.running, e.last = false, examination{Began: began, At: time.Now(), Report: report, Err: err}
	})
}

// result returns what was found last.
func (e *examiner) result() examination {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := e.last
	last.Running = e.running
	return last
}
