package outcome

import "time"

// Quarantine is whether a node that is connected does not vote. The zero value says that it does.
type Quarantine struct {
	quarantined bool
	until       time.Time // its end; zero means that an event ends it
}

// QuarantineOf returns what an [event.NodeUp] or an [event.Quarantine] says.
func QuarantineOf(at time.Time, quarantined bool, left time.Duration) Quarantine {
	q := Quarantine{quarantined: quarantined}
	if left > 0 {
		q.until = at.Add(left)
	}
	return q
}

// Lasts reports whether the node does not vote at some time.
func (q Quarantine) Lasts(now time.Time) bool {
	return q.quarantined && (q.until.IsZero() || now.Before(q.until))
}
