package bench_test

import (
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/subject"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// BenchmarkX_Restart is a server that is killed, is away for 0.1 to 3 s and comes back, while a caller wants a lock each 5 ms: how long it
// takes from the first connection that the server accepts until the caller has a lock (p50-µs, p99-µs). Most of ns/op is the outage.
func BenchmarkX_Restart(b *testing.B) {
	each(b, subject.Named("quorumlock", "redsync"), 1, func(b *testing.B, s subject.Subject, servers []*testredis.Process) {
		server := servers[0]
		caller := open(b, s, servers, 1, nodeTimeout).Caller("bench")
		warm(b, caller, 100)
		times := newLatencies()
		for b.Loop() {
			server.Stop()
			back := make(chan time.Time, 1)
			go func() {
				<-time.After(100*time.Millisecond + rand.N(2900*time.Millisecond))
				accepted := firstAccepted(server.Addr())
				server.Start()
				back <- <-accepted
			}()
			for cycle(caller) != nil {
				<-time.After(5 * time.Millisecond)
			}
			used := time.Now()
			times = append(times, used.Sub(<-back))
		}
		times.report(b)
	})
}

// firstAccepted returns when a server that is started now has accepted a connection.
func firstAccepted(addr string) <-chan time.Time {
	accepted := make(chan time.Time, 1)
	go func() {
		for {
			conn, err := net.Dial("tcp", addr)
			if err == nil {
				accepted <- time.Now()
				_ = conn.Close()
				return
			}
			<-time.After(200 * time.Microsecond)
		}
	}()
	return accepted
}
