package otelredlock

// KeepsAtMost is how many span events of one call or held lock are kept.
const KeepsAtMost = keepFirst + keepLast

// KeepMost is how many calls, and how many held locks, are kept at most.
const KeepMost = keepMost

// Kept returns how many calls and held locks the Observer keeps, and how many acquires of locks that have ended.
func (o *Observer) Kept() (calls, held, ended int) {
	o.state.mu.Lock()
	defer o.state.mu.Unlock()
	return len(o.state.calls), len(o.state.held), max(len(o.state.ended), len(o.state.order))
}

// Events returns the number of the rounds' events that are kept of a call.
func (o *Observer) Events(call uint64) int {
	o.state.mu.Lock()
	defer o.state.mu.Unlock()
	if k := o.state.calls[call]; k != nil {
		return len(k.first) + len(k.last)
	}
	return 0
}
