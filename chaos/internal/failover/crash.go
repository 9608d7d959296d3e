package failover

import (
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// crash is how a primary fails.
type crash struct {
	late    bool // its replicas get nothing for a while before
	freezes bool // it is frozen, and thaws after the failover; otherwise it is killed, and starts again empty
	// promote makes a replica the primary. Without it the servers find out by themselves that the primary has failed.
	promote func(s *strike, replica *testredis.Process)
}

// markTTL is above the time of a failover.
const markTTL = time.Minute

func (c crash) run(s *strike) {
	former, replicas := s.primary(s.node), s.replicas(s.node)
	mark := s.key(s.node, "mark")
	if c.late {
		s.lag(s.node)
		s.do(former, "SET", mark, "late", "PX", markTTL.Milliseconds())
		<-time.After(s.lags)
	}
	if c.freezes {
		former.Freeze()
	} else {
		former.Stop()
	}
	for _, p := range replicas {
		p.Thaw()
	}
	if c.promote != nil {
		c.promote(s, replicas[0])
	}
	next := s.successor(s.node, former, replicas)
	s.FailedOver++
	if n, err := redis.Int(s.do(next, "EXISTS", mark), nil); c.late && err == nil && n == 0 {
		s.Lost++
	}
	s.do(next, "DEL", mark)
	<-time.After(s.rests)
	if c.freezes {
		former.Thaw()
	} else {
		former.Start()
	}
	s.restored(s.node, former, next)
}

// failsOver has a replica take over while all servers work.
func failsOver(s *strike) {
	former, replicas := s.primary(s.node), s.replicas(s.node)
	s.failOver(s.node)
	next := s.successor(s.node, former, replicas)
	s.FailedOver++
	s.restored(s.node, former, next)
}

// do runs a command on a server, without which the fault fails.
func (n *Nodes) do(p *testredis.Process, command string, args ...any) any {
	reply, err := p.Do(command, args...)
	if err != nil {
		n.host.Fatalf("%s of %s: %v", command, p.Addr(), err)
	}
	return reply
}
