package engine

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
)

// names is the entries of an Engine, by key. Idle entries are discarded when there are many.
type names struct {
	seed   maphash.Seed
	shards [shards]shard
}

const (
	shards = 64
	// leastCleanUp is how many entries a shard has at least before it discards idle ones.
	leastCleanUp = 8
	// maxHealing is how many entries a shard has before it also discards entries that only remember since when a key has
	// had no TTL.
	maxHealing = 4096 / shards
)

// shard is the entries of some of the keys.
type shard struct {
	mu        sync.Mutex // taken after the mutex of an entry
	entries   map[string]*Entry
	cleanUpAt int // the number of entries at which idle ones are discarded
}

func (s *names) shard(key string) *shard {
	return &s.shards[maphash.String(s.seed, key)%shards]
}

// Find returns the entry of a key, locked, or nil if there is none.
func (g *Engine) Find(key string) *Entry {
	in := g.names.shard(key)
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

// Enter returns the entry of a key, locked. It makes one if there is none.
func (g *Engine) Enter(key string) *Entry {
	in := g.names.shard(key)
	for {
		in.mu.Lock()
		e := in.entries[key]
		if e == nil && len(in.entries) >= max(in.cleanUpAt, leastCleanUp) {
			in.cleanUpAt = 2 * len(in.entries) // so that other goroutines do not discard at the same time
			in.mu.Unlock()
			in.discard()
			in.mu.Lock()
			in.cleanUpAt = 2 * len(in.entries)
			e = in.entries[key]
		}
		if e == nil {
			if in.entries == nil {
				in.entries = map[string]*Entry{}
			}
			e = &Entry{engine: g}
			e.Name.Begin(&g.Rules, key)
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

// discard removes the entries that are idle, see maxHealing.
func (in *shard) discard() {
	in.each(func(e *Entry, of int) {
		if e.Name.Idle() && (of >= maxHealing || !e.Name.Healing()) {
			e.goneLocked()
			in.mu.Lock()
			delete(in.entries, e.Name.Key())
			in.mu.Unlock()
		}
	})
}

// each calls what with every entry, locked, and with the number of entries.
func (in *shard) each(what func(e *Entry, of int)) {
	in.mu.Lock()
	all := slices.AppendSeq(make([]*Entry, 0, len(in.entries)), maps.Values(in.entries))
	in.mu.Unlock()
	for _, e := range all {
		e.mu.Lock()
		if !e.gone {
			what(e, len(all))
		}
		e.Exit()
	}
}

// each calls what with every entry, locked.
func (s *names) each(what func(e *Entry)) {
	for i := range s.shards {
		s.shards[i].each(func(e *Entry, _ int) { what(e) })
	}
}

// close discards all entries, when no call waits. The locks that are held go on.
func (s *names) close() {
	s.each((*Entry).goneLocked)
	for i := range s.shards {
		in := &s.shards[i]
		in.mu.Lock()
		in.entries = nil
		in.mu.Unlock()
	}
}
