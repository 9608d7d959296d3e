package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	// DefaultLimit is how many names are listed by default.
	DefaultLimit = 100_000
	// maxNames bounds the names that are listed, in bytes.
	maxNames = 64 << 20
	// maxPattern bounds a pattern, in bytes: the servers match it with each key.
	maxPattern = 512

	defaultTimeout = 5 * time.Second

	// leastNodeLimit is how long a node may take for everything by default, at least.
	leastNodeLimit = 5 * time.Second
)

// ErrTooManyKeys means that the keys of a node came page by page, but not all of them in time.
var ErrTooManyKeys = errors.New("too many keys to be listed")

// Options say what is listed.
type Options struct {
	Prefix  string        // of the keys
	Pattern string        // that names match, in the form of KEYS of Redis; "" means all
	Fencing bool          // tokens of other clients may have fencing tokens behind them, as for redlock.WithFencing
	Limit   int           // how many names there may be; 0 means DefaultLimit
	Timeout time.Duration // how long a node may take for each page; 0 means 5 s
	Connect time.Duration // how long it may take to connect; 0 means Timeout
	// NodeLimit is how long a node may take for everything; 0 means ten times Timeout, at least 5 s.
	NodeLimit time.Duration
}

// List asks all servers at once what locks they hold, and merges that by name. It goes through the keys of each server page by
// page, on a connection of its own, and reads no more of a value than a token may have. It changes nothing. A lock that is
// taken or released meanwhile may be listed or not.
//
// It also asks who shares a lock (ZRANGE, TIME), who waits for it, and whether the process of its holder listens (PUBSUB NUMSUB). A
// node that refuses that, or has data of another program in that place, is asked for the rest.
//
// Names above the limit are left out, but what is listed is complete. Counters of fencing tokens are left out too. A node that
// is not done within NodeLimit has not answered completely, like one that fails: what it has said until then is in the Views.
//
// The Listing has what the nodes have answered, also with an error: that is redlock.ErrNoQuorum if those whose answers are
// complete are no majority, joined with ctx.Err() if ctx ended. There is no Listing if the options are invalid.
func List(ctx context.Context, servers []*node.Server, o Options) (*Listing, error) {
	if len(o.Pattern) > maxPattern {
		return nil, fmt.Errorf("the pattern has %d bytes: at most %d", len(o.Pattern), maxPattern)
	}
	o.Limit, o.Timeout = cmp.Or(o.Limit, DefaultLimit), cmp.Or(o.Timeout, defaultTimeout)
	o.Connect, o.NodeLimit = cmp.Or(o.Connect, o.Timeout), cmp.Or(o.NodeLimit, max(leastNodeLimit, 10*o.Timeout))
	t := &table{Options: o, locks: map[string]*Lock{}, servers: map[string]string{}, owners: presences{}}
	listing := &Listing{Nodes: make([]NodeReport, len(servers)), Need: len(servers)/2 + 1}
	var asking sync.WaitGroup
	for i, s := range servers {
		asking.Go(func() {
			began := time.Now()
			l := &lister{table: t, node: i, server: s, known: map[string]bool{}}
			err := l.list(ctx)
			listing.Nodes[i] = NodeReport{Addr: s.Address, Took: time.Since(began), Err: err, Process: l.process}
		})
	}
	asking.Wait()
	t.merge(listing)
	if answered := listing.Answered(); answered < listing.Need {
		err := fmt.Errorf("%w: %d of %d nodes listed all keys, %d needed", redlock.ErrNoQuorum, answered, len(servers), listing.Need)
		return listing, errors.Join(ctx.Err(), err)
	}
	return listing, nil
}

// Answered returns how many nodes have answered completely.
func (l *Listing) Answered() (n int) {
	for _, report := range l.Nodes {
		if report.Err == nil {
			n++
		}
	}
	return n
}

// table collects what the nodes hold.
type table struct {
	Options

	mu        sync.Mutex
	locks     map[string]*Lock  // by name
	bytes     int               // of the names
	truncated bool              // names were left out
	servers   map[string]string // their addresses, by run_id
	sharers   int               // the size of those that are kept
	owners    presences
}

// identify takes the run_id of a server, and fails if it is that of another address.
func (t *table) identify(run, addr string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if other, found := t.servers[run]; found {
		return fmt.Errorf("%w %s", nodeerr.ErrSameServer, other)
	}
	t.servers[run] = addr
	return nil
}

// admit returns those of the keys that are to be read: each once, of names within the limit.
func (t *table) admit(keys []string) (admitted []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		name, found := strings.CutPrefix(key, t.Prefix)
		if !found || name == "" || form.Reserved(key) {
			continue
		}
		if t.locks[name] == nil {
			if len(t.locks) >= t.Limit || t.bytes+len(name) > maxNames {
				t.truncated = true
				continue
			}
			t.bytes += len(name)
			t.locks[name] = &Lock{Name: name}
		}
		admitted = append(admitted, key)
	}
	return admitted
}

// add takes what a node holds under keys that were admitted, views[i] under keys[i]; a zero View means nothing. A scan may find a
// key twice; the later view counts.
func (t *table) add(keys []string, views []View) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, v := range views {
		if v.read.IsZero() {
			continue
		}
		l := t.locks[keys[i][len(t.Prefix):]]
		for _, other := range l.Views {
			if other.Token == v.Token {
				v.Token = other.Token // shares its memory
			}
		}
		if i := slices.IndexFunc(l.Views, func(other View) bool { return other.Node == v.Node }); i >= 0 {
			l.Views[i] = v
		} else {
			l.Views = append(l.Views, v)
		}
	}
}

// merge completes the listing.
func (t *table) merge(to *Listing) {
	now := time.Now()
	to.Truncated, to.owners = t.truncated, t.owners
	to.Locks = make([]Lock, 0, len(t.locks))
	for _, l := range t.locks {
		l.Views = slices.DeleteFunc(l.Views, func(v View) bool { return now.Sub(v.read) > v.TTL })
		if len(l.Views) == 0 {
			continue // it has expired meanwhile
		}
		slices.SortFunc(l.Views, func(a, b View) int { return cmp.Compare(a.Node, b.Node) })
		for i := range l.Views {
			v := &l.Views[i]
			to.Nodes[v.Node].Keys++
			if v.TTL != redlock.NoLimit {
				v.TTL -= now.Sub(v.read)
			}
			for j := range v.Sharers {
				v.Sharers[j].TTL -= now.Sub(v.read)
			}
			v.Sharers = slices.DeleteFunc(v.Sharers, func(h redlock.Holder) bool { return h.TTL < 0 })
		}
		to.Judge(l)
		to.Locks = append(to.Locks, *l)
	}
	slices.SortFunc(to.Locks, func(a, b Lock) int { return cmp.Compare(a.Name, b.Name) })
}
