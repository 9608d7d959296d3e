package testredis

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// Service is a primary with a replica behind one name, as managed services are: a failover lets the former primary keep its connections.
type Service struct {
	tb      testing.TB
	servers []*Process
	primary atomic.Int32
	dials   atomic.Int32
}

// NewService starts a service for a test, as [Real] does its servers. The replica has attached when it returns.
func NewService(tb testing.TB) *Service {
	tb.Helper()
	s := &Service{tb: tb, servers: Real(tb, 2, "--repl-diskless-sync-delay", "0")}
	s.follow(s.servers[1], s.servers[0])
	return s
}

// Dial connects to the present primary, to which the name of the service leads. It is a function for pool.WithDialer.
func (s *Service) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	s.dials.Add(1)
	return new(net.Dialer).DialContext(ctx, network, s.Primary().Addr())
}

// Dials returns how often Dial was called.
func (s *Service) Dials() int { return int(s.dials.Load()) }

// Primary returns the present primary.
func (s *Service) Primary() *Process { return s.servers[s.primary.Load()] }

// Replica returns the present replica.
func (s *Service) Replica() *Process { return s.servers[1-s.primary.Load()] }

// FailOver lets the replica take over when it has all that the primary has. The former primary has become its replica when it returns.
func (s *Service) FailOver() {
	s.tb.Helper()
	former, next := s.Primary(), s.Replica()
	s.eventually("the replica has all that the primary has", func() bool {
		return s.replication(former, "master_repl_offset") == s.replication(next, "slave_repl_offset")
	})
	s.promote()
	s.follow(former, next)
}

// Lag has the replica get nothing any more. It does not follow again before the failover.
func (s *Service) Lag() {
	s.tb.Helper()
	s.Replica().Freeze()
	s.do(s.Primary(), "CLIENT", "KILL", "TYPE", "replica") // otherwise it would still read what is in its socket
}

// FailOverLate ends the primary, and lets the replica take over without what the primary has done since Lag.
func (s *Service) FailOverLate() {
	s.tb.Helper()
	s.Primary().Stop()
	s.Replica().Thaw()
	s.promote()
}

// promote has the name of the service lead to what has been the replica.
func (s *Service) promote() {
	s.tb.Helper()
	s.do(s.Replica(), "REPLICAOF", "NO", "ONE")
	s.primary.Store(1 - s.primary.Load())
}

func (s *Service) follow(replica, primary *Process) {
	s.tb.Helper()
	host, port, _ := net.SplitHostPort(primary.Addr())
	s.do(replica, "REPLICAOF", host, port)
	s.eventually("the replica has attached", func() bool { return s.replication(replica, "master_link_status") == "up" })
}

// replication returns a field of INFO replication.
func (s *Service) replication(server *Process, field string) string {
	s.tb.Helper()
	return Info(s.tb, server, "replication", field)
}

func (s *Service) do(server *Process, cmd string, args ...any) {
	s.tb.Helper()
	if _, err := server.Do(cmd, args...); err != nil {
		s.tb.Fatal(err)
	}
}

// eventually waits for what is bound to happen.
func (s *Service) eventually(what string, happened func() bool) {
	s.tb.Helper()
	for range 3000 {
		if happened() {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	s.tb.Fatalf("waited in vain: %s", what)
}
