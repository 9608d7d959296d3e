package testredis

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// Name leads to one server at a time, as a DNS record does. Connections stay where they led when they were made.
type Name struct {
	leads atomic.Pointer[Process]
	dials atomic.Int32
}

// Lead has the name lead to a server from now on.
func (n *Name) Lead(to *Process) { n.leads.Store(to) }

// Dial connects to the server to which the name leads. It is a function for pool.WithDialer.
func (n *Name) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	n.dials.Add(1)
	return new(net.Dialer).DialContext(ctx, network, n.leads.Load().Addr())
}

// Dials returns how often Dial was called.
func (n *Name) Dials() int { return int(n.dials.Load()) }

// Service is a primary with a replica behind one name, as managed services are: a failover lets the former primary keep its connections.
type Service struct {
	Name
	tb      testing.TB
	servers []*Process
}

// NewService starts a service for a test, as [Real] does its servers. The replica has attached when it returns.
func NewService(tb testing.TB) *Service {
	tb.Helper()
	s := &Service{tb: tb, servers: Real(tb, 2, "--repl-diskless-sync-delay", "0")}
	s.Lead(s.servers[0])
	s.follow(s.servers[1], s.servers[0])
	return s
}

// Primary returns the present primary.
func (s *Service) Primary() *Process { return s.leads.Load() }

// Replica returns the present replica.
func (s *Service) Replica() *Process {
	if s.Primary() == s.servers[0] {
		return s.servers[1]
	}
	return s.servers[0]
}

// FailOver lets the replica take over when it has all that the primary has. The former primary has become its replica when it returns.
func (s *Service) FailOver() {
	s.tb.Helper()
	former, next := s.Primary(), s.Replica()
	eventually(s.tb, "the replica has all that the primary has", func() bool {
		return s.replication(former, "master_repl_offset") == s.replication(next, "slave_repl_offset")
	})
	s.promote()
	s.follow(former, next)
}

// Lag has the replica get nothing any more. It does not follow again before the failover.
func (s *Service) Lag() {
	s.tb.Helper()
	s.Replica().Freeze()
	do(s.tb, s.Primary(), "CLIENT", "KILL", "TYPE", "replica") // otherwise it would still read what is in its socket
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
	do(s.tb, s.Replica(), "REPLICAOF", "NO", "ONE")
	s.Lead(s.Replica())
}

func (s *Service) follow(replica, primary *Process) {
	s.tb.Helper()
	host, port, _ := net.SplitHostPort(primary.Addr())
	do(s.tb, replica, "REPLICAOF", host, port)
	eventually(s.tb, "the replica has attached", func() bool { return s.replication(replica, "master_link_status") == "up" })
}

// replication returns a field of INFO replication.
func (s *Service) replication(server *Process, field string) string {
	s.tb.Helper()
	return Info(s.tb, server, "replication", field)
}

func do(tb testing.TB, server *Process, cmd string, args ...any) {
	tb.Helper()
	if _, err := server.Do(cmd, args...); err != nil {
		tb.Fatal(err)
	}
}

// eventually waits for what is bound to happen.
func eventually(tb testing.TB, what string, happened func() bool) {
	tb.Helper()
	for range 3000 {
		if happened() {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	tb.Fatalf("waited in vain: %s", what)
}
