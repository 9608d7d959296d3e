package event

// Observer is notified of what happens, for metrics, traces and displays. redlock.WithObserver gives it to a Locker.
//
// Observe is called for one event after the other, in the order in which they happened, from a goroutine beside the calls of
// the Locker: an Observer that is slow, or blocks, holds up no lock. At least 65,536 events wait for it meanwhile; those that
// come after them are dropped, which a [Drop] reports. Locker.Close waits until the Observer has had all events, but not longer
// than a second for one that blocks, or that calls Close itself; an Unlock after Close is still observed, and so is what a
// function of Do needs after Close.
//
// An Observer may call the Locker. It must not panic, nor end its goroutine. Several Lockers may share an Observer; each calls it
// from a goroutine of its own.
type Observer interface {
	Observe(Event)
}

// ObserverFunc is a function as an Observer.
type ObserverFunc func(Event)

// Observe calls f.
func (f ObserverFunc) Observe(e Event) { f(e) }
