package web_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/promtest"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/web"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

// scrape returns the samples that Prometheus gets.
func (s *site) scrape() map[string]float64 {
	s.t.Helper()
	answer, text := s.request(http.MethodGet, "/metrics", nil, nil)
	require.Equal(s.t, http.StatusOK, answer.StatusCode)
	require.Equal(s.t, "text/plain; version=0.0.4; charset=utf-8", answer.Header.Get("Content-Type"))
	return promtest.Samples(s.t, text)
}

// of returns the sample of a server.
func of(metric string, server *testredis.Process) string {
	return metric + `{node="` + server.Addr() + `"}`
}

const eternal = `redlock_probe_locks_without_ttl`

func locks(verdict redlock.Verdict) string {
	return `redlock_probe_locks{verdict="` + string(verdict) + `"}`
}

func TestMetrics_AreThoseOfTheNodesAndTheLocks(t *testing.T) {
	t.Parallel()
	s := overReal(t, nil)
	s.set("lock:secret", "IT3FCSXG.token:of somebody")
	do(t, s.servers[:1], "SET", "lock:left", "a-token", "PX", 600_000)
	do(t, s.servers, "SET", "lock:eternal", "a-token")
	do(t, s.servers[:1], "SET", "lock:eternal-on-one", "a-token")
	do(t, s.servers, "HSET", "lock:data", "a", "b")
	do(t, s.servers[1:2], "HSET", "lock:data-on-one", "a", "b")
	do(t, s.servers, "SET", "other", "a-token")
	do(t, s.servers[2:], "REPLICAOF", "127.0.0.1", "1")
	began := float64(time.Now().UnixMilli()) / 1000
	_, text := s.get("/metrics")
	promtest.Check(t, text)
	for _, secret := range []string{"secret", "left", "eternal-on-one", "token", "somebody"} {
		require.NotContains(t, text, secret)
	}
	is := promtest.Samples(t, text)
	for _, server := range s.servers[:2] {
		require.EqualValues(t, 1, is[of("redlock_probe_node_up", server)])
		require.EqualValues(t, 1, is[of("redlock_probe_node_master", server)])
		require.Positive(t, is[of("redlock_probe_node_latency_seconds", server)])
		require.Contains(t, is, of("redlock_probe_node_uptime_seconds", server))
	}
	require.Contains(t, is, of("redlock_probe_node_up", s.servers[2]))
	require.Zero(t, is[of("redlock_probe_node_up", s.servers[2])])
	require.Contains(t, is, of("redlock_probe_node_master", s.servers[2]))
	require.Zero(t, is[of("redlock_probe_node_master", s.servers[2])])
	require.NotContains(t, is, of("redlock_probe_node_latency_seconds", s.servers[2]))
	require.NotContains(t, text, "quarantined", "nobody has said whether there is a restart guard")
	for sample, value := range map[string]float64{
		locks(redlock.VerdictHeld): 2, locks(redlock.VerdictNobody): 0, locks(redlock.VerdictUnknown): 2, locks(redlock.VerdictForeign): 2,
		eternal: 2, "redlock_probe_listing_majority": 1, "redlock_probe_listing_truncated": 0,
	} {
		require.Contains(t, is, sample)
		require.Equal(t, value, is[sample], sample)
	}
	for _, at := range []string{"redlock_probe_timestamp_seconds", "redlock_probe_listing_timestamp_seconds"} {
		require.GreaterOrEqual(t, is[at], began)
		require.LessOrEqual(t, is[at], float64(time.Now().UnixMilli())/1000)
	}
}

func TestMetrics_LeaveOutTheLocksWhileAMajorityIsAway(t *testing.T) {
	t.Parallel()
	s := overReal(t, nil)
	s.set("lock:a", "a-token")
	s.servers[0].Stop()
	s.servers[1].Stop()
	_, text := s.get("/metrics")
	promtest.Check(t, text)
	is := promtest.Samples(t, text)
	require.EqualValues(t, 1, is[of("redlock_probe_node_up", s.servers[2])])
	require.Contains(t, is, of("redlock_probe_node_up", s.servers[0]))
	require.Zero(t, is[of("redlock_probe_node_up", s.servers[0])])
	require.Contains(t, is, "redlock_probe_listing_majority")
	require.Zero(t, is["redlock_probe_listing_majority"])
	require.NotContains(t, text, "redlock_probe_locks", "how many there are is not known, and not 0")
}

func TestMetrics_SayWhichNodesAreQuarantinedIfThatIsKnown(t *testing.T) {
	t.Parallel()
	s := guarded(t, time.Hour, func(c *web.Config) { c.Durable = []string{c.Servers[0].Address} }, func(servers []*testredis.Process) {
		stamp(t, 2*time.Hour, "", servers[1])
	})
	is := s.scrape()
	for i, value := range []float64{0, 0, 1} {
		require.Contains(t, is, of("redlock_probe_node_quarantined", s.servers[i]))
		require.Equal(t, value, is[of("redlock_probe_node_quarantined", s.servers[i])], i)
	}
	do(t, s.servers, "ACL", "SETUSER", "default", "resetkeys", "~lock:*")
	s.servers[0].Stop()
	is = promtest.Samples(t, s.see("/metrics", of("redlock_probe_node_up", s.servers[0])+" 0\n"))
	for _, server := range s.servers {
		require.NotContains(t, is, of("redlock_probe_node_quarantined", server))
	}
}

func TestMetrics_HaveWhatTheDoctorFoundOnceHeIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := overListings(t, func(c *web.Config) {
			examine := c.Examine
			c.Examine = func(ctx context.Context) (*doctor.Report, error) {
				<-time.After(time.Second)
				report, err := examine(ctx)
				report.Findings[0].Check, report.Findings[1].Check, report.Findings[2].Check = "eviction", "eviction", "version"
				report.Checks = []string{"eviction", "version", "role"}
				report.Unexamined = []doctor.Unexamined{{Check: "role", Node: "a:1", Needs: "a right"}}
				return report, err
			}
		})
		for sample := range l.scrape() {
			require.False(t, strings.HasPrefix(sample, "redlock_doctor_"), sample)
		}
		<-time.After(2 * time.Second)
		is := l.scrape()
		for sample, value := range map[string]float64{
			`redlock_doctor_findings{check="eviction",severity="fault"}`:   2,
			`redlock_doctor_findings{check="eviction",severity="warning"}`: 0,
			`redlock_doctor_findings{check="version",severity="warning"}`:  1,
			`redlock_doctor_findings{check="role",severity="fault"}`:       0,
			`redlock_doctor_unexamined`:                                    1,
		} {
			require.Contains(t, is, sample)
			require.Equal(t, value, is[sample], sample)
		}
		require.InDelta(t, time.Now().Unix()-1, is["redlock_doctor_last_examination_timestamp_seconds"], 0.1)
	})
}

// The danger: each scrape is a look at the page, after which the nodes are asked every second for 85 s.
func TestMetrics_AScrapeCostsANodeOneLook(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		l.scrape()
		<-time.After(time.Hour)
		asked, examined := l.times()
		require.Equal(t, 1, asked)
		require.Equal(t, 1, examined)
		for range 40 {
			l.scrape()
			<-time.After(15 * time.Second)
		}
		now, examinedNow := l.times()
		require.Equal(t, 40, now-asked)
		require.InDelta(t, 10, examinedNow-examined, 1, "once in a minute")
	})
}

func TestMetrics_AsksOnceForAllScrapesOfAnInterval(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		for range 60 {
			var scraping sync.WaitGroup
			for range 5 {
				scraping.Go(func() { l.scrape() })
			}
			scraping.Wait()
			<-time.After(500 * time.Millisecond)
		}
		asked, _ := l.times()
		require.InDelta(t, 30, asked, 1)
	})
}

func TestMetrics_AreWhatThePageHasFoundWhileSomebodyLooks(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		l.hold(held("a", "t", time.Hour))
		before, _ := l.times()
		for range 60 {
			l.get("/")
			require.EqualValues(t, 1, l.scrape()[locks(redlock.VerdictHeld)])
			<-time.After(time.Second)
		}
		after, _ := l.times()
		require.InDelta(t, 60, after-before, 2, "those of the page")
		<-time.After(time.Hour)
		l.mu.Lock()
		l.locks = nil
		l.mu.Unlock()
		require.Zero(t, l.scrape()[locks(redlock.VerdictHeld)], "not what the page had an hour ago")
	})
}

// The danger: a node that hangs lets Prometheus give up, and all metrics are missing.
func TestMetrics_ComeInTimeAndAListingThatTakesLongerIsForTheNextScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := overListings(t, func(c *web.Config) {
			list := c.List
			c.List = func(ctx context.Context) (*survey.Listing, error) {
				<-time.After(20 * time.Second)
				return list(ctx)
			}
		})
		began := time.Now()
		is := l.scrape()
		require.Less(t, time.Since(began), 10*time.Second)
		require.Contains(t, is, "redlock_probe_timestamp_seconds")
		require.NotContains(t, is, "redlock_probe_listing_timestamp_seconds")
		l.scrape()
		<-time.After(time.Minute)
		is = l.scrape()
		require.InDelta(t, float64(began.Add(20*time.Second).Unix()), is["redlock_probe_listing_timestamp_seconds"], 1, "its age is seen")
		asked, _ := l.times()
		require.Equal(t, 1, asked)
		<-time.After(time.Hour)
		require.NotContains(t, l.scrape(), "redlock_probe_listing_timestamp_seconds", "too old")
	})
}

func TestMetrics_OfANodeThatHangsComeInTime(t *testing.T) {
	t.Parallel()
	s := overReal(t, func(c *web.Config) { c.Timeout = time.Minute })
	s.servers[1].Freeze()
	t.Cleanup(s.servers[1].Thaw)
	is := s.scrape()
	require.EqualValues(t, 1, is[of("redlock_probe_node_up", s.servers[0])])
	require.Contains(t, is, of("redlock_probe_node_up", s.servers[1]))
	require.Zero(t, is[of("redlock_probe_node_up", s.servers[1])])
	s.servers[1].Thaw()
}

func TestMetrics_OfAServerThatEndsAreNotThatAllNodesAreDown(t *testing.T) {
	t.Parallel()
	listed := make(chan struct{})
	s := overReal(t, func(c *web.Config) {
		c.List = func(ctx context.Context) (*survey.Listing, error) {
			close(listed)
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	go func() { <-listed; s.stop() }()
	answer, text := s.request(http.MethodGet, "/metrics", nil, nil)
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.NotContains(t, text, "redlock_probe")
}

func TestMetrics_AreForThoseWhoKnowTheServer(t *testing.T) {
	t.Parallel()
	s := overReal(t, func(c *web.Config) { c.Host = "ops.example" })
	for host, code := range map[string]int{
		"127.0.0.1:8379": http.StatusOK, "ops.example:8379": http.StatusOK, "rebound.example": http.StatusMisdirectedRequest,
	} {
		answer, text := s.request(http.MethodGet, "/metrics", nil, func(r *http.Request) { r.Host = host })
		require.Equal(t, code, answer.StatusCode, host)
		require.Equal(t, code == http.StatusOK, strings.Contains(text, "redlock_probe_node_up"), host)
	}
}

// Each of these comes in the place of a server's answer to INFO.
func TestMetrics_AreNotWhatAServerMakesOfThem(t *testing.T) {
	t.Parallel()
	for name, info := range map[string]string{
		"lines of metrics": "uptime_in_seconds:1\nredlock_probe_node_up{node=\"x\"} 1\r\nrole:master\r\n",
		"another role":     "role:\"}\\\x1b[2J\r\n",
		"a huge uptime":    "uptime_in_seconds:99999999999999999999\r\nrole:master\r\n",
		"no numbers":       "uptime_in_seconds:NaN\r\nrole:master\r\nrole:slave\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := testredis.Listen(t, func(c net.Conn) {
				_ = testredis.Answer(c, func(words []string) (string, bool) {
					switch words[0] {
					case "INFO":
						return testredis.Bulk(info), true
					case "SCAN":
						return "*2\r\n$1\r\n0\r\n*1\r\n" + testredis.Bulk("lock:a\n\"} 1\nredlock_probe_locks{x=\""), true
					}
					return "+OK\r\n", true
				})
			})
			s := over(t, nil, []string{"redis://" + addr}, nil)
			_, text := s.get("/metrics")
			promtest.Check(t, text)
			for sample := range promtest.Samples(t, text) {
				if strings.HasPrefix(sample, "redlock_probe_node_") {
					require.Contains(t, sample, `{node="`+addr+`"}`)
				}
				require.NotContains(t, sample, "x=")
			}
		})
	}
}
