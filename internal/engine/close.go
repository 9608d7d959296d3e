package engine

import "sync"

// An Engine ends in two steps. Close refuses later calls, ends the calls that wait, and waits for the calls under way.
// Functions of Do may still run then. The renewals of their locks, their releases and the nodes go on for them. If no
// function runs, Close ends these too. Otherwise the last function that returns ends them.

// Close closes the Engine. It returns when nothing of the Engine runs any longer, except functions of Do.
func (g *Engine) Close() {
	g.mu.Lock()
	g.stop()
	running := g.functions > 0
	g.mu.Unlock()
	g.renewals.stop()
	g.calls.Wait()
	if !running { // no function has begun since
		g.end()
	}
}

// Ended returns a channel that is closed after Close, when nothing of the Engine runs any longer, functions included.
func (g *Engine) Ended() <-chan struct{} { return g.ended }

// BeginFunction counts a function of Do that holds h, until EndFunction. It returns false if the Engine has been
// closed.
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

// EndFunction calls release, which releases the lock of a function that has returned. If the Engine has been closed and
// this was the last function, EndFunction ends the Engine.
func (g *Engine) EndFunction(h *Held, release func()) {
	g.mu.Lock()
	// A Close that comes now waits for the release, because it closes the nodes afterwards.
	awaited := g.Own && g.closing.Err() == nil
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
		g.renewals.await(h) // nobody else waits for a renewal that is under way
	}
	if last {
		g.calls.Wait()
		g.end()
	}
}

// end ends the notifications of the nodes, and discards the entries. If the nodes belong to the Engine, end closes
// them. No call waits and no function runs then. end may be called again.
func (g *Engine) end() {
	defer g.endOnce.Do(func() { close(g.ended) })
	for _, n := range g.Nodes {
		if g.listening.Load() { // it does not change after Close
			n.Unlisten(g)
		}
		n.Unreport(g.reporter) // so the reporter does not hear that the nodes are closed below
	}
	g.names.close()
	if g.Own {
		var closing sync.WaitGroup // the nodes are closed at the same time, because each may take its timeout
		for _, n := range g.Nodes {
			closing.Go(func() { _ = n.Close() }) // the error is always nil
		}
		closing.Wait()
	}
}
