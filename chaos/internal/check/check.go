// Package check finds broken promises of the library in the history of a run. docs/safety.md says what is promised.
//
// It works on what calls have returned and when, and on nothing else: it knows neither servers nor the library. Each promise has a
// check that looks for operations which contradict it. In addition all holds of a name, and all writes and reads of a register, are
// given to porcupine, which looks for an order of them that a lock, or a register, could have gone through.
//
// A violation is certain. What could have another reason is passed over: so each check names what excuses a history, and a run has
// to keep to the assumptions of docs/safety.md, unless it wants to see what happens without them.
package check

import (
	"fmt"
	"math"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// Rules say what is promised for the locks of a kind.
type Rules struct {
	Fenced    bool          // fences rise
	Handoff   bool          // WithLocalHandoff: locks are handed off in memory, and a nil from Unlock says less
	Strangers bool          // programs without the library take the same names by SETNX
	Heal      time.Duration // of WithHeal; 0 without
	Lease     time.Duration // the longest TTL of the run
	Timeout   time.Duration // of a node
	Guard     time.Duration // maxTTL of the restart guard; 0 without
	Nodes     int           // how many there are
	Register  int           // the number of the server with the registers, which is no node
}

// slack is how late a process with enough CPU may be with what it does.
const slack = time.Second

// settled is how long after a fault, or a call without a clear result, keys may be in the way that belong to nobody: until their TTLs
// are over, and nodes are out of quarantine, which may take 2 s longer.
func (r Rules) settled() time.Duration {
	longest := max(r.Lease, r.Guard)
	return longest + longest/50 + 2*time.Second + r.Timeout + slack
}

// Promises, as a Violation names them.
const (
	TwoHolders      = "two holders"
	TooManySlots    = "more locks than slots"
	NoOrder         = "no order of holders explains what they have seen"
	FenceWentBack   = "fence went back"
	FenceChanged    = "fence changed"
	UnlockWasWrong  = "unlock said nil although another had it"
	Outlived        = "lock outlived its validity"
	LossNotReported = "loss not reported"
	TakenByNobody   = "taken by nobody"
	WaiterSlept     = "waiter slept"
	SetKept         = "set kept a lock for long"
	PassedOver      = "waiter passed over"
	OutOfOrder      = "out of order"
	Endless         = "key without a TTL"
	RegisterBack    = "register went back"
	WriteLost       = "write of a holder was lost"
	StrangerChanged = "stranger's key changed"
	UnexpectedError = "unexpected error"
)

// Violation is a broken promise, and the operations that show it.
type Violation struct {
	Promise, Text string
	Name          string
	Ops           []*history.Op

	reduce func() []*history.Op // finds a smaller history that is as wrong; nil if Ops is one
}

func (v Violation) String() string { return fmt.Sprintf("%s: %s: %s", v.Name, v.Promise, v.Text) }

// OfHolders reports whether there were two holders at once, or more than there may be.
func (v Violation) OfHolders() bool {
	return v.Promise == TwoHolders || v.Promise == TooManySlots || v.Promise == UnlockWasWrong || v.Promise == NoOrder
}

// most is how many violations of a promise are reported for a name. More of the same kind help nobody.
const most = 10

func (l *lock) report(promise string, ops []*history.Op, format string, args ...any) *Violation {
	n := 0
	for _, v := range l.violations {
		if v.Promise == promise {
			n++
		}
	}
	v := &Violation{Promise: promise, Text: fmt.Sprintf(format, args...), Name: l.name, Ops: ops}
	if n < most {
		l.violations = append(l.violations, v)
	}
	return v
}

// Check checks what is promised to those who use the lock of that name: to those who call for it, to the registers that they write
// under it, and to programs that use its keys without the library. Undecided is how many windows porcupine has given up.
func (h *History) Check(name string, r Rules) (violations []Violation, undecided int) {
	l := h.lock(name, r)
	for _, check := range []func(){
		l.exclusion, l.slots, l.fences, l.outlived, l.lossReported, l.taken, l.slept, l.passed, l.order, l.unexpected, l.holders, l.within,
		l.registers, l.plain, l.strangers,
	} {
		check()
	}
	for _, v := range l.violations {
		violations = append(violations, *v)
	}
	return violations, l.undecided
}

// add is t + d, where the end of time is not passed.
func add(t int64, d time.Duration) int64 {
	if t > math.MaxInt64-int64(d) {
		return math.MaxInt64
	}
	return t + int64(d)
}

// ms is a difference of times as texts show it.
func ms(d int64) time.Duration { return time.Duration(d).Round(time.Microsecond) }
