package redlock

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// names are the entries of a Locker, by key. Idle ones are discarded when there are many. Nodes report to it what changes and what
// peers publish.
type names struct {
	locker *Locker
	seed   maphash.Seed
	shards [shards]shard

	listening atomic.Bool
	listens   sync.Mutex // of listen and close
}

const (
	shards = 64
	// leastCleanUp is how many entries a shard has at least before idle ones are discarded.
	leastCleanUp = 8
	// maxHealing is how many it has before those are discarded too that only remember since when a key has had no TTL.
	maxHealing = 4096 / shards
)

// shard are the entries of some of the keys.
type shard struct {
	mu        sync.Mutex // taken after that of an entry
	entries   map[string]*entry
	cleanUpAt int // number of entries at which idle ones are discarded
}

func (s *names) shard(key string) *shard {
	return &s.shards[maphash.String(s.seed, key)%shards]
}

// find returns the entry of a key, locked, or nil if there is none.
func (s *names) find(key string) *entry {
	in := s.shard(key)
	in.mu.Lock()
	e := in.entries[key]
	in.mu.Unlock()
	if e == nil {
		return nil
	}
	e.mu.Lock()
	if e.gone {
		e.mu.Unlock()
		return nil
	}
	return e
}

// enter returns the entry of a key, locked. It is made if there is none.
func (s *names) enter(key string) *entry {
	in := s.shard(key)
	for {
		in.mu.Lock()
		e := in.entries[key]
		if e == nil && len(in.entries) >= max(in.cleanUpAt, leastCleanUp) {
			in.cleanUpAt = 2 * len(in.entries) // for others, meanwhile
			in.mu.Unlock()
			in.discard()
			in.mu.Lock()
			in.cleanUpAt = 2 * len(in.entries)
			e = in.entries[key]
		}
		if e == nil {
			if in.entries == nil {
				in.entries = map[string]*entry{}
			}
			e = newEntry(s.locker, key)
			in.entries[key] = e
		}
		in.mu.Unlock()
		e.mu.Lock()
		if !e.gone {
			return e
		}
		e.mu.Unlock() // it was discarded meanwhile
	}
}

func (in *shard) all() []*entry {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.AppendSeq(make([]*entry, 0, len(in.entries)), maps.Values(in.entries))
}

// discard removes the entries that are idle.
func (in *shard) discard() {
	all := in.all()
	for _, e := range all {
		e.mu.Lock()
		if !e.gone && e.name.Idle() && (len(all) >= maxHealing || !e.name.Healing()) {
			e.goneLocked()
			in.mu.Lock()
			delete(in.entries, e.name.Key())
			in.mu.Unlock()
		}
		e.mu.Unlock()
	}
}

// each calls what with every entry, locked.
func (s *names) each(what func(e *entry)) {
	for i := range s.shards {
		for _, e := range s.shards[i].all() {
			e.mu.Lock()
			if !e.gone {
				what(e)
			}
			e.unlock()
		}
	}
}

// listen has the nodes report changes and messages, from the first wait or renewal on.
func (s *names) listen() {
	if s.listening.Load() {
		return
	}
	s.listens.Lock()
	defer s.listens.Unlock()
	if s.listening.Load() || s.locker.closing.Err() != nil {
		return
	}
	s.listening.Store(true)
	for i, n := range s.locker.nodes {
		n.Listen(s, i, channel(s.locker.self))
	}
}

// close ends the listening. Nobody waits any more. The locks that are held go on.
func (s *names) close() {
	s.listens.Lock()
	if s.listening.Load() {
		for _, node := range s.locker.nodes {
			node.Unlisten(s)
		}
	}
	s.listens.Unlock()
	s.each((*entry).goneLocked)
	for i := range s.shards {
		in := &s.shards[i]
		in.mu.Lock()
		in.entries = nil
		in.mu.Unlock()
	}
}
