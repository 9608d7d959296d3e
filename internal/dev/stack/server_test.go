package stack_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// server is a Redis server with its keys, which faults happen to.
type server struct {
	run    *run
	number int
	slower atomic.Int64 // added to the latency

	mu          sync.Mutex
	change      *sync.Cond
	runs        int // how often it was started: part of its run_id
	keys        map[string]entry
	sharers     map[string]map[string]time.Time // of keys that readers share: when the lease of each ends
	slots       map[string]map[string]int       // of keys whose slots are shared: that of each
	scripts     map[string]bool
	peers       map[int64]*peer
	last        int64 // the number of the latest connection
	frozen      int   // how many faults keep it so
	down        int
	unreachable int
	refusal     string
	traps       []fault                   // for the next commands
	owned       map[string]bool           // tokens that have acquired a key here
	longer      map[string]bool           // extensions that were carried out here
	stuck       map[string]bool           // tokens whose release was refused or garbled here
	tracked     map[string]map[int64]bool // keys, and the connections that observed them
}

// entry is a key's value.
type entry struct {
	token string
	ends  time.Time
}

// peer is the server's end of a connection.
type peer struct {
	*conn
	from    *client
	number  int64
	killed  bool // nothing more is read from it
	stalled bool // or not yet
	mute    bool

	resp3    bool
	tracks   bool
	caching  bool // what the next command observes
	channels map[string]bool

	out  []string // replies and pushes that are not written yet, in order
	last bool     // the connection ends behind them
	more chan struct{}
}

func newServer(r *run, number int) *server {
	s := &server{
		run: r, number: number,
		keys: map[string]entry{}, sharers: map[string]map[string]time.Time{}, slots: map[string]map[string]int{}, scripts: map[string]bool{}, peers: map[int64]*peer{},
		owned: map[string]bool{}, longer: map[string]bool{}, stuck: map[string]bool{},
		tracked: map[string]map[int64]bool{},
	}
	s.change = sync.NewCond(&s.mu)
	return s
}

// dial connects a client.
func (s *server) dial(ctx context.Context, from *client) (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unreachable > 0 {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return nil, ctx.Err()
	}
	if s.down > 0 {
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: syscall.ECONNREFUSED}
	}
	s.last++
	name := fmt.Sprintf("connection %d of %v to server %d", s.last, from, s.number)
	ours, theirs := connected(name, s.run.plan.room, s.latency())
	ours.misuse = func(what string) { s.run.violate("%s %s", name, what) }
	p := &peer{conn: theirs, from: from, number: s.last, channels: map[string]bool{}, more: make(chan struct{}, 1)}
	s.peers[p.number] = p
	s.run.serving.Go(func() { s.serve(p) })
	s.run.serving.Go(func() { s.write(p) })
	return ours, nil
}

// latency returns a function that returns for how long the next message of a connection is on its way.
func (s *server) latency() func() time.Duration {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(uint64(s.number), uint64(s.last)))
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(r.Int64N(int64(s.run.plan.latency/unit)+1))*unit + time.Duration(s.slower.Load())
	}
}

// serve answers the commands of a connection in their order.
func (s *server) serve(p *peer) {
	err := testredis.Answer(p.conn, func(words []string) (reply string, more bool) { return "", s.answer(p, words) })
	if err != nil && strings.Contains(err.Error(), "redigo: ") {
		s.run.violate("server %d cannot read what %v wrote: %v", s.number, p.from, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers, p.number)
	p.last = true
	p.putLocked("")
}

// write sends what has been put for a connection.
func (s *server) write(p *peer) {
	defer p.Close()
	for range p.more {
		s.mu.Lock()
		text, last := strings.Join(p.out, ""), p.last
		p.out = nil
		s.mu.Unlock()
		if _, err := p.Write([]byte(text)); err != nil || last {
			return
		}
	}
}

// putLocked has something sent.
func (p *peer) putLocked(text string) {
	p.out = append(p.out, text)
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// answer carries out a command, when the server comes to it, and sends the reply. It returns false if the connection
// ends behind the reply.
func (s *server) answer(p *peer, args []string) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for (s.frozen > 0 || p.stalled) && !p.killed {
		s.change.Wait()
	}
	if p.killed || p.mute {
		return !p.killed
	}
	reply, more := s.replyLocked(p, args)
	p.putLocked(reply)
	return more
}

func (s *server) replyLocked(p *peer, args []string) (reply string, more bool) {
	isLock := args[0] == "SET" || strings.HasPrefix(args[0], "EVAL")
	kind := numFaults // none
	var trap fault
	if isLock && len(s.traps) > 0 {
		trap, s.traps = s.traps[0], s.traps[1:]
		kind = trap.kind
		s.run.note("server %d: %v springs on %s of %v", s.number, trap.kind, show(args), p.from)
	}
	if kind == cutBefore {
		return "", false
	}
	if s.refusal != "" && (isLock || strings.HasPrefix(s.refusal, "BUSY")) {
		s.stickLocked(args)
		reply = "-" + s.refusal + "\r\n"
	} else {
		reply = s.execute(p, args)
	}
	s.run.note("server %d: %s of %v: %.20q", s.number, show(args), p.from, reply)
	switch kind {
	case cutAfter:
		return "", false
	case half:
		return reply[:len(reply)/2], false
	case garbage:
		if strings.HasPrefix(reply, "-") {
			s.stickLocked(args)
		}
		return garbageTexts[trap.how%len(garbageTexts)], true
	}
	return reply, true
}

// stickLocked records a script with a token that was not run.
func (s *server) stickLocked(args []string) {
	if strings.HasPrefix(args[0], "EVAL") && len(args) > 4 {
		s.stuck[args[4]] = true
		for _, arg := range args[4:] { // of those who share a key, behind the keys and the mark
			s.stuck[arg] = true
		}
	}
}

// resetLocked ends every connection, with what is in its buffers.
func (s *server) resetLocked() {
	for _, p := range s.peers {
		p.killed = true
		p.reset()
	}
	s.change.Broadcast()
}

// holds reports whether a token has its key here.
func (s *server) holds(key, token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.getLocked(key)
	return ok && (e.token == token || (e.token == readers || e.token == slots) && time.Now().Before(s.sharers[key][token]))
}

func (s *server) getLocked(key string) (entry, bool) {
	e, ok := s.keys[key]
	if ok && !time.Now().Before(e.ends) {
		delete(s.keys, key)
		s.changedLocked(nil, key)
		return entry{}, false
	}
	return e, ok
}

func show(args []string) string {
	if strings.HasPrefix(args[0], "EVAL") {
		return args[0] + " " + strings.Join(args[3:], " ")
	}
	return strings.Join(args, " ")
}
