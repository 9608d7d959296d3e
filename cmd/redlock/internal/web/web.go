// Package web serves a page on which one sees the nodes and the locks as they change.
//
// A poller asks the nodes while somebody looks at the page. Pages are rendered on the server: live.js gets an open one anew each
// second, and puts what has changed in its place. Without script a page is reloaded.
package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// MaxLocks is how many locks a listing for the page should have at most.
const MaxLocks = 10_000

// Config is what a page shows and how.
type Config struct {
	Servers      []*node.Server
	Timeout      time.Duration // for each of them
	Prefix       string        // of the keys
	List         func(context.Context) (*survey.Listing, error)
	Examine      func(context.Context) (*doctor.Report, error)
	Interval     time.Duration // from one look at the nodes to the next
	ExamineEvery time.Duration // 0 means only at the start and on demand
	RestartGuard time.Duration // of the programs that use the locks; 0 means none
	Durable      []string      // the nodes that the programs declare durable, as in doctor.Options
	NodeTimeout  time.Duration // of the programs; 0 means 300 ms

	AllowUnlock bool
	Nodes       []*pool.Node    // to unlock on; Nodes[i] is Servers[i]
	Locker      *redlock.Locker // over Nodes
	Log         io.Writer       // a line for each unlock
	Host        string          // that the page is called by, beside localhost and the address of the connection
}

// Server serves the page.
type Server struct {
	Config
	poller   *poller
	scraper  *scraper
	examiner *examiner
	journal  *journal
	process  string          // tells this server from one that was there before
	secret   string          // that forms have to send back: other sites cannot read it
	ctx      context.Context // of the examinations
}

// New returns a Server that runs once Serve is called.
func New(config Config) *Server {
	config.NodeTimeout = cmp.Or(config.NodeTimeout, 300*time.Millisecond)
	return &Server{
		Config: config, poller: newPoller(config), scraper: newScraper(&config),
		examiner: &examiner{examine: config.Examine, every: config.ExamineEvery},
		journal:  newJournal(config.Log), process: rand.Text(), secret: rand.Text(),
	}
}

const (
	readTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second
	idleTimeout  = time.Minute
	// farewell is how long requests under way may take when the server ends.
	farewell = 3 * time.Second
)

// Serve serves the page until ctx ends, and closes the listener. Nothing of the server is left when it returns, except for a
// Write to the Log that does not end.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.ctx = ctx
	var polling sync.WaitGroup
	polling.Go(func() { s.poller.run(ctx) })
	writing, endWriting := context.WithCancel(context.WithoutCancel(ctx))
	written := make(chan struct{})
	go func() { defer close(written); s.journal.run(writing) }()
	server := &http.Server{
		Handler:           s.handler(),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: 32 << 10,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	ended := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(ended)
		patience, stop := context.WithTimeout(context.Background(), farewell)
		defer stop()
		if server.Shutdown(patience) != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(l)
	cancel()
	<-ended
	polling.Wait()
	s.scraper.wait()
	s.examiner.working.Wait()
	endWriting()
	select {
	case <-written:
	case <-time.After(farewell):
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// maxLines is how many lines wait for being written.
const maxLines = 64

// journal writes lines one after the other, behind the back of those who add them: nobody waits for a pipe that is full.
type journal struct {
	w     io.Writer
	lines chan string
	lost  atomic.Int64 // lines, since there was no room
}

func newJournal(w io.Writer) *journal { return &journal{w: w, lines: make(chan string, maxLines)} }

// add lets a line be written, or counts it as lost.
func (j *journal) add(line string) {
	select {
	case j.lines <- line:
	default:
		j.lost.Add(1)
	}
}

// run writes lines until ctx ends, and those that are there then.
func (j *journal) run(ctx context.Context) {
	for {
		select {
		case line := <-j.lines:
			j.write(line)
		default:
			select {
			case line := <-j.lines:
				j.write(line)
			case <-ctx.Done():
				return
			}
		}
	}
}

func (j *journal) write(line string) {
	fmt.Fprintln(j.w, line)
	if lost := j.lost.Swap(0); lost > 0 {
		fmt.Fprintf(j.w, "redlock: %d lines were lost here, as nobody read them in time\n", lost)
	}
}
