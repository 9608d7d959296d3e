package engine

import "sync"

// An Engine ends in two steps. Close refuses later calls, ends those that wait, and waits for what is under way. What a function of Do
// still needs goes on: the renewals of its lock, its release, and the nodes. Whoever finds no function running after Close, which is Close
// itself or the last of the functions, ends that too.

// Close returns when only functions run.
func (g *Engine) Close() {
	g.mu.Lock()
	g.stop()
	running := g.functions > 0
	g.mu.Unlock()
	g.renewals.stop()
	g.calls.Wait()
	if !running { // nor has one begun since
		g.end()
	}
}

// Ended returns a channel that is closed when nothing runs after Close, functions included.
func (g *Engine) Ended() <-chan struct{} { return g.ended }

// BeginFunction counts a function that holds h, until EndFunction. It returns false if the Engine has been closed.
func (g *Engine) BeginFunction(h *Held) bool {
	h.Enter()
	defer h.Exit()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing.Err() != nil {
		return false
	}
	g.functions++
	h.functions++
	return true
}

// EndFunction releases the lock of a function that has returned. Behind the last function it ends the Engine, if that has been
// closed.
func (g *Engine) EndFunction(h *Held, release func()) {
	g.mu.Lock()
	awaited := g.Own && g.closing.Err() == nil // by Close, which closes the nodes behind it
	if awaited {
		g.functions--
		g.calls.Add(1)
	}
	g.mu.Unlock()
	release()
	h.Enter()
	h.functions--
	h.Exit()
	if awaited {
		g.calls.Done()
		return
	}
	g.mu.Lock()
	g.functions--
	closed := g.closing.Err() != nil
	last := closed && g.functions == 0
	g.mu.Unlock()
	if closed {
		g.renewals.await(h) // nobody else waits for one that is under way
	}
	if last {
		g.calls.Wait()
		g.end()
	}
}

// end ends what the nodes do for the Engine, when nobody waits and no function runs. It may be called again.
func (g *Engine) end() {
	defer g.endOnce.Do(func() { close(g.ended) })
	for _, n := range g.Nodes {
		if g.listening.Load() { // from Close on that does not change
			n.Unlisten(g)
		}
		n.Unreport(g.reporter) // nobody hears of it that the nodes are closed
	}
	g.names.close()
	if g.Own {
		var closing sync.WaitGroup // at the same time, since each may take its timeout
		for _, n := range g.Nodes {
			closing.Go(func() { _ = n.Close() }) // always nil
		}
		closing.Wait()
	}
}
