package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Rules are the same for all names of a process.
type Rules struct {
	Clock   quorum.Clock
	Wall    func() time.Time // the time of day
	Nodes   int
	Timeout time.Duration // of a node, the longest
	Self    string        // the owner part of the tokens that are made here
	Form    form.Form     // of the locks that are taken, in which all are observed
	Fenced  *form.Fenced  // of those that have a number
	Closed  func() bool   // nothing is extended any more but what is renewed
	Drift   quorum.Drift
	Pace    Pace
}
