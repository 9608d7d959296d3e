package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/nodemetrics"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
)

const (
	// scrapeBound is how long a scrape waits for the nodes. Prometheus waits for 10 s as a rule.
	scrapeBound = 8 * time.Second
	// scrapeTimeout bounds how long a node may take for a scrape, so that one that hangs is in the metrics in time.
	scrapeTimeout = 5 * time.Second
	// maxListed is how old a listing may be that a scrape shows while the next one takes longer. Prometheus looks back
	// as far.
	maxListed = 5 * time.Minute
)

// inquiry asks the nodes one thing, once for all scrapes that come within an interval.
type inquiry[T any] struct {
	ask      func(context.Context) T
	interval time.Duration

	mu      sync.Mutex
	newest  *look[T] // nil before the first
	before  *look[T] // the one before that
	working sync.WaitGroup
}

// look is an answer of the nodes.
type look[T any] struct {
	done   chan struct{} // closed when the rest is there
	at     time.Time     // zero if the nodes were not asked, as the server ends
	answer T
}

// isDone reports whether the answer is there.
func (l *look[T]) isDone() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// begin asks the nodes, unless they are being asked or were lately. It returns the look, and the one before it, if
// there was one. ctx is that of the server, not that of a scrape.
func (q *inquiry[T]) begin(ctx context.Context) (newest, before *look[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.newest; l != nil && (!l.isDone() || time.Since(l.at) < q.interval) {
		return l, q.before
	}
	l := &look[T]{done: make(chan struct{})}
	if ctx.Err() != nil {
		close(l.done)
		return l, nil
	}
	q.newest, q.before = l, q.newest
	q.working.Go(func() {
		l.answer, l.at = q.ask(ctx), time.Now()
		close(l.done)
	})
	return l, q.before
}

// scraper asks the nodes for the scrapes that come while nobody looks at the page.
type scraper struct {
	nodes    inquiry[[]health]
	listings inquiry[*survey.Listing]
}

func newScraper(config *Config) *scraper {
	s := &scraper{}
	s.nodes.interval, s.listings.interval = config.Interval, config.Interval
	s.nodes.ask = func(ctx context.Context) []health {
		nodes := make([]health, len(config.Servers))
		var asking sync.WaitGroup
		for i, server := range config.Servers {
			asking.Go(func() {
				p := newProbe(config, server)
				defer p.close()
				p.timeout = min(p.timeout, scrapeTimeout)
				nodes[i] = p.ask(ctx)
			})
		}
		asking.Wait()
		return nodes
	}
	s.listings.ask = func(ctx context.Context) *survey.Listing {
		listing, _ := config.List(ctx) // the Listing says itself who has not answered
		return listing
	}
	return s
}

// take returns what the nodes answer, as far as it is there before ctx ends. What they take longer for is for the next
// scrape.
func (s *scraper) take(ctx, server context.Context) *snapshot {
	nodes, _ := s.nodes.begin(server)
	listing, before := s.listings.begin(server)
	for _, done := range []chan struct{}{nodes.done, listing.done} {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	snap := &snapshot{}
	if nodes.isDone() {
		snap.Asked, snap.Nodes = nodes.at, nodes.answer
	}
	if !listing.isDone() {
		listing = before
	}
	if listing != nil && time.Since(listing.at) < maxListed {
		snap.At, snap.Listing = listing.at, listing.answer
	}
	return snap
}

// wait waits until no node is asked.
func (s *scraper) wait() {
	s.nodes.working.Wait()
	s.listings.working.Wait()
}

// latest returns what is known while somebody looks at the page; nil if nobody does, or if the locks are not known yet.
func (p *poller) latest() *snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == nil || p.current.At.IsZero() {
		return nil
	}
	return p.current
}

// metrics answers a scrape. It is no look at the page.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), scrapeBound)
	defer cancel()
	s.examiner.visit(s.ctx, false)
	snap := s.poller.latest()
	if snap == nil {
		snap = s.scraper.take(ctx, s.ctx)
	}
	if s.ctx.Err() != nil { // the nodes were not asked to the end
		http.Error(w, "The server ends.", http.StatusServiceUnavailable)
		return
	}
	m := nodemetrics.Metrics{At: snap.Asked, ListedAt: snap.At, Listing: snap.Listing}
	now := time.Now()
	for i := range snap.Nodes {
		m.Nodes = append(m.Nodes, s.measured(&snap.Nodes[i], now))
	}
	last := s.examiner.result()
	m.ExaminedAt, m.Report = last.At, last.Report
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(m.Text())
}

// measured returns what a node's metrics are about.
func (s *Server) measured(h *health, now time.Time) nodemetrics.Node {
	n := nodemetrics.Node{Addr: h.Addr, Up: h.Err == nil, Latency: h.Took, Uptime: h.Up}
	if h.Role != "" {
		is := h.Role == client.Master
		n.Master = &is
	}
	if s.RestartGuard > 0 && n.Up {
		if why, doubt := s.quarantine(h, now); doubt == "" {
			is := why != ""
			n.Quarantined = &is
		}
	}
	return n
}
