package promredlock_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/promredlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

func TestCollector_TellsWhichNodesAreUp(t *testing.T) {
	c := promredlock.New()
	refused := errors.New("connection refused")
	up := func(addr string) { c.Observe(event.NodeUp{At: time.Now(), Addr: addr}) }
	down := func(addr string, failed int, err error) {
		c.Observe(event.NodeDown{At: time.Now(), Addr: addr, Failed: failed, Err: err})
	}
	c.Observe(protocol.Vote{Op: event.OpAcquire, Addr: "unconnected:1", Answer: protocol.AnswerUnsent})
	up("a:1")
	up("a:1")               // of another Locker
	down("a:1", 1, refused) // of a third
	down("b:2", 1, refused)
	down("b:2", 2, refused)
	up("c:3")
	down("c:3", 0, nodeerr.ErrBroken)
	down("c:3", 1, refused)
	metrics := []string{"node_up", "node_disconnects_total", "node_connect_failures_total"}
	compare(t, c, `
		node_up{node="a:1"} 1
		node_up{node="b:2"} 0
		node_up{node="c:3"} 0
		node_disconnects_total{node="unconnected:1"} 0
		node_disconnects_total{node="a:1"} 0
		node_disconnects_total{node="b:2"} 0
		node_disconnects_total{node="c:3"} 1
		node_connect_failures_total{node="unconnected:1"} 0
		node_connect_failures_total{node="a:1"} 1
		node_connect_failures_total{node="b:2"} 2
		node_connect_failures_total{node="c:3"} 1
	`, slices.Clone(metrics)...)

	down("a:1", 0, nodeerr.ErrClosed) // the other Locker goes on
	down("a:1", 1, nodeerr.ErrClosed) // of the third
	down("b:2", 2, nodeerr.ErrClosed)
	up("c:3")
	compare(t, c, `
		node_up{node="a:1"} 1
		node_up{node="c:3"} 1
		node_disconnects_total{node="unconnected:1"} 0
		node_disconnects_total{node="a:1"} 0
		node_disconnects_total{node="b:2"} 0
		node_disconnects_total{node="c:3"} 1
		node_connect_failures_total{node="unconnected:1"} 0
		node_connect_failures_total{node="a:1"} 1
		node_connect_failures_total{node="b:2"} 2
		node_connect_failures_total{node="c:3"} 1
	`, metrics...)
}

func TestCollector_EndsAQuarantineByTime(t *testing.T) {
	c := promredlock.New()
	begin := time.Now()
	at := func(d time.Duration) { c.SetClock(func() time.Time { return begin.Add(d) }) }
	c.Observe(event.NodeUp{At: begin, Addr: "timed:1", Quarantined: true, Left: time.Minute})
	c.Observe(event.NodeUp{At: begin, Addr: "endless:2", Quarantined: true})
	c.Observe(event.NodeUp{At: begin, Addr: "votes:3"})
	at(time.Minute - time.Nanosecond)
	compare(t, c, `
		node_quarantined{node="timed:1"} 1
		node_quarantined{node="endless:2"} 1
		node_quarantined{node="votes:3"} 0
	`, "node_quarantined")
	at(time.Minute)
	c.Observe(event.NodeDown{At: begin, Addr: "endless:2", Err: nodeerr.ErrBroken})
	c.Observe(event.Quarantine{At: begin, Addr: "votes:3", Quarantined: true})
	c.Observe(event.Quarantine{At: begin, Addr: "votes:3"})
	compare(t, c, `
		node_quarantined{node="timed:1"} 0
		node_quarantined{node="endless:2"} 0
		node_quarantined{node="votes:3"} 0
	`, "node_quarantined")
}
