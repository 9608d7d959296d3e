package doctor_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

func portOf(t testing.TB, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	return port
}

func TestExamine_SaysWhyAServerCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args   []string
		change func(t *testing.T, s *testredis.Process) (url string)
		what   string
		fix    string
	}{
		"down":             {what: "connection refused", fix: "start the server", change: func(_ *testing.T, s *testredis.Process) string { s.Stop(); return ":secret@" }},
		"no password":      {what: "NOAUTH", fix: "$REDLOCK_PASSWORD", change: func(*testing.T, *testredis.Process) string { return "" }},
		"a wrong password": {what: "WRONGPASS", fix: "ACL GETUSER default", change: func(*testing.T, *testredis.Process) string { return ":geheim@" }},
		"an unknown user":  {what: "WRONGPASS", fix: "ACL GETUSER nobody", change: func(*testing.T, *testredis.Process) string { return "nobody:geheim@" }},
		"a running script": {what: "BUSY", fix: "SCRIPT KILL", args: []string{"--lua-time-limit", "10"}, change: runScript},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, all := besideTwo(t, test.args...)
			servers := serversOf(all)
			user, password, _ := strings.Cut(strings.TrimSuffix(test.change(t, s), "@"), ":")
			servers[0].Username, servers[0].Password = user, password
			r := finds(t, servers, patient(doctor.Options{}), is(doctor.Fault, "reachable", s.Addr()))
			require.Contains(t, r.Findings[0].What, test.what)
			require.Contains(t, r.Findings[0].Fix, test.fix)
			require.NotContains(t, r.Findings[0].What+r.Findings[0].Fix, "geheim")
		})
	}
}

// The danger: its owner looks for rename-command.
func TestExamine_SaysOfASentinelWhatItIs(t *testing.T) {
	t.Parallel()
	sentinel := testredis.Sentinel(t).Addr()
	for _, login := range []node.Server{{}, {Password: "secret"}, {Database: 1}} {
		server := serverAt(sentinel)
		server.Password, server.Database = login.Password, login.Database
		r := finds(t, append(serversOf(wellSetServers(t, 2)), server), patient(doctor.Options{Only: []string{"reachable", "commands", "role", "lock"}}),
			is(doctor.Fault, "reachable", sentinel))
		require.Contains(t, r.Findings[0].What, "it is a Sentinel")
		require.Contains(t, r.Findings[0].Fix, "name a server that holds data")
	}
}

// runScript makes the server run a script until the test ends.
func runScript(t *testing.T, s *testredis.Process) string {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c, err := redis.Dial("tcp", s.Addr(), redis.DialPassword("secret"))
		if err == nil {
			defer c.Close()
			_, _ = c.Do("EVAL", "while true do end", 0)
		}
	}()
	t.Cleanup(func() { <-ended })
	t.Cleanup(s.Stop)
	require.Eventually(t, func() bool {
		_, err := s.Do("PING")
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	}, bound, time.Millisecond)
	return ":secret@"
}

func TestExamine_IsNotHeldUpByAFrozenServer(t *testing.T) {
	t.Parallel()
	s, all := besideTwo(t)
	s.Freeze()
	defer s.Thaw()
	o := patient(doctor.Options{Only: []string{"reachable"}})
	o.Timeout = 8 * time.Second
	r := finds(t, serversOf(all), o, is(doctor.Fault, "reachable", s.Addr()))
	require.Contains(t, r.Findings[0].What, "no answer within 8s")
}

// The danger: a server that programs use is called unreachable, as its first answer takes longer than one command may.
func TestExamine_WaitsForAConnectionAsProgramsDo(t *testing.T) {
	t.Parallel()
	s := wellSetServers(t, 1)[0]
	far := relay(t, func() string { <-time.After(1800 * time.Millisecond); return s.Addr() }, forward)
	o := patient(doctor.Options{Only: []string{"reachable", "lock"}})
	o.Timeout = 1500 * time.Millisecond
	finds(t, []*node.Server{serverAt(far)}, o)
}

func TestExamine_FindsProtectedMode(t *testing.T) {
	t.Parallel()
	own := ownAddress(t)
	s := testredis.Real(t, 1, "--bind", "0.0.0.0")[0]
	if testredis.IsOld(t, s) {
		t.Skip("it is not protected if it is told where to listen")
	}
	server := serverAt(s.Addr())
	server.Password = ""
	server.Dial = dialer(net.JoinHostPort(own, portOf(t, s.Addr())))
	r := finds(t, append(serversOf(wellSetServers(t, 2)), server), patient(doctor.Options{}), is(doctor.Fault, "reachable", s.Addr()))
	require.Contains(t, r.Findings[0].What, "DENIED")
}

// ownAddress returns an address of this machine at which it is not known as itself.
func ownAddress(t *testing.T) string {
	addrs, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, addr := range addrs {
		if ip, is := addr.(*net.IPNet); is && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	t.Skip("this machine has no address beside that of its loopback")
	return ""
}

func TestExamine_FindsOneServerUnderTwoAddresses(t *testing.T) {
	t.Parallel()
	all := wellSetServers(t, 2)
	twin := relay(t, all[0].Addr, forward)
	r := finds(t, append(serversOf(all), serverAt(twin)), patient(doctor.Options{}), is(doctor.Fault, "duplicate", twin))
	require.Contains(t, r.Findings[0].What, all[0].Addr())
}

func TestExamine_FindsAProxyThatLeadsToSeveralServers(t *testing.T) {
	t.Parallel()
	all := wellSetServers(t, 4)
	var turn atomic.Int64
	balancer := relay(t, func() string { return all[turn.Add(1)%2].Addr() }, forward)
	finds(t, append(serversOf(all[2:]), serverAt(balancer)), patient(doctor.Options{}), is(doctor.Fault, "proxy", balancer))
}

// Programs use such a proxy, so it is not called unreachable.
func TestExamine_FindsAProxyThatClosesTheConnectionOnACommand(t *testing.T) {
	t.Parallel()
	const guard = time.Hour
	for name, test := range map[string]struct {
		closes   string
		guard    time.Duration
		severity doctor.Severity
		shows    string
	}{
		"on HELLO":                  {"HELLO", 0, doctor.Warning, "the connection is closed on HELLO"},
		"on HELLO, guarded":         {"HELLO", guard, doctor.Warning, "the connection is closed on HELLO"},
		"on INFO":                   {"INFO", 0, doctor.Warning, "the connection is closed on INFO"},
		"on INFO, guarded":          {"INFO", guard, doctor.Fault, "with the restart guard the node never grants locks"},
		"on CLIENT":                 {"CLIENT", 0, doctor.Warning, "the connection is closed on CLIENT"},
		"on CLIENT, guarded":        {"CLIENT", guard, doctor.Fault, "with the restart guard the node never grants locks"},
		"on HELLO, INFO and CLIENT": {"HELLO INFO CLIENT", 0, doctor.Warning, "the connection is closed on INFO, CLIENT, HELLO"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := wellSetServers(t, 3)
			if test.guard > 0 {
				stamp(t, 2*test.guard, all...)
			}
			proxy := testredis.Listen(t, func(c net.Conn) { closeOn(c, all[0].Addr(), strings.Fields(test.closes)) })
			s := serverAt(proxy)
			if test.guard > 0 {
				s.Address = all[0].Addr() // of the stamp
				s.Dial = dialer(proxy)
			}
			r := finds(t, append(serversOf(all[1:]), s), patient(doctor.Options{RestartGuard: test.guard}), is(test.severity, "hang-ups", s.Address))
			require.Contains(t, r.Findings[0].What, test.shows)
		})
	}
}

// closeOn forwards commands to a server until one of these comes.
func closeOn(c net.Conn, server string, closes []string) {
	to, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(c, to) }()
	_ = testredis.Answer(c, func(words []string) (reply string, more bool) {
		if slices.Contains(closes, words[0]) {
			return "", false
		}
		text := fmt.Sprintf("*%d\r\n", len(words))
		for _, word := range words {
			text += testredis.Bulk(word)
		}
		_, err := io.WriteString(to, text)
		return "", err == nil
	})
}

func TestExamine_FindsAServerThatIsTooFarAway(t *testing.T) {
	t.Parallel()
	all := wellSetServers(t, 3)
	const delay = 20 * time.Millisecond
	far := relay(t, all[0].Addr, func(from io.Reader, to io.Writer) {
		for buffer := make([]byte, 64<<10); ; {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			<-time.After(delay)
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	})
	servers := append(serversOf(all[1:]), serverAt(far))
	o := patient(doctor.Options{})
	finds(t, servers, o)
	o.NodeTimeout = 3 * delay
	r := examine(t, servers, o)
	require.NotEmpty(t, r.Findings)
	require.True(t, func() bool { // on a busy machine the others may be slow, too
		for _, f := range r.Findings {
			if f.Check == "latency" && f.Node == far {
				return true
			}
		}
		return false
	}(), "%+v", r.Findings)
}

// altering relays to a server, and replaces text in what it answers.
func altering(t testing.TB, s *testredis.Process, replace func(answer []byte) []byte) (addr string) {
	t.Helper()
	return testredis.Listen(t, func(c net.Conn) {
		server, err := net.Dial("tcp", s.Addr())
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(server, c)
			_ = server.Close()
		}()
		for buffer := make([]byte, 64<<10); ; {
			n, err := server.Read(buffer)
			if err != nil {
				return
			}
			if _, err := c.Write(replace(buffer[:n])); err != nil {
				return
			}
		}
	})
}

// Each of these is found on a server whose INFO has another text.
func TestExamine_FindsWhatAServerSaysOfItself(t *testing.T) {
	t.Parallel()
	all := wellSetServers(t, 3)
	major := "redis_version:" + testredis.Info(t, all[0], "all", "redis_version")[:1]
	others := []string{all[1].Addr(), all[2].Addr()}
	for name, test := range map[string]struct {
		says     []string // what is in INFO, and what takes its place, which is as long
		o        doctor.Options
		severity doctor.Severity // "" means that nothing is found
		check    string
		shows    string
	}{
		"an old version": {
			[]string{"valkey_version", "forked_version", major, "redis_version:5"}, doctor.Options{}, doctor.Fault, "version", "Redis 5.",
		},
		"no run_id": {[]string{"\nrun_id:", "\nxxx_xx:"}, doctor.Options{}, doctor.Warning, "identity", "run_id"},
		"no run_id, which the restart guard needs": {
			[]string{"\nrun_id:", "\nxxx_xx:"}, doctor.Options{RestartGuard: time.Hour, Durable: others}, doctor.Fault, "identity", "run_id",
		},
		"no history, which the restart guard needs": {
			[]string{"\nmaster_replid:", "\nxxxxxx_xxxxxx:"}, doctor.Options{RestartGuard: time.Hour, Durable: others}, doctor.Fault, "identity", "master_replid",
		},
		"no uptime, which nothing needs": {[]string{"\nuptime_in_seconds:", "\nxxxxxx_in_seconds:"}, doctor.Options{}, "", "", ""},
		"the AOF could not be written": {
			[]string{"aof_last_write_status:ok\r\n", "aof_last_write_status:err\n"}, doctor.Options{}, doctor.Fault, "aof-errors", "AOF",
		},
	} {
		t.Run(name, func(t *testing.T) {
			says := strings.NewReplacer(test.says...)
			odd := altering(t, all[0], func(answer []byte) []byte { return []byte(says.Replace(string(answer))) })
			if test.severity == "" {
				finds(t, append(serversOf(all[1:]), serverAt(odd)), patient(test.o))
				return
			}
			r := finds(t, append(serversOf(all[1:]), serverAt(odd)), patient(test.o), is(test.severity, test.check, odd))
			require.Contains(t, r.Findings[0].What, test.shows)
		})
	}
}

// faraway makes connections look as if they led to an address.
type faraway struct {
	net.Conn
	ip string
}

func (c faraway) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.ip), Port: 6379} }

func TestExamine_FindsNodesOnOneHostAndConnectionsThatAreNotEncrypted(t *testing.T) {
	t.Parallel()
	servers := serversOf(wellSetServers(t, 3))
	for i, ip := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.1"} {
		dial := servers[i].Dial
		servers[i].Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			return faraway{c, ip}, err
		}
	}
	r := examine(t, servers, patient(doctor.Options{}))
	requireFindings(t, r, is(doctor.Warning, "hosts", ""), is(doctor.Warning, "tls", servers[0].Address),
		is(doctor.Warning, "tls", servers[1].Address), is(doctor.Warning, "tls", servers[2].Address))
	require.Contains(t, r.Findings[0].What, servers[0].Address+", "+servers[2].Address+" are on one host, 192.0.2.1")
	require.Contains(t, r.Findings[1].What, "the password is sent in the clear")
}

func TestExamine_FindsAListOfNodesThatDoesNotFit(t *testing.T) {
	t.Parallel()
	servers := serversOf(wellSetServers(t, 4))
	for n, shows := range map[int]string{1: "1 node:", 2: "2 nodes:", 4: "an even number"} {
		r := finds(t, servers[:n], patient(doctor.Options{}), is(doctor.Warning, "count", ""))
		require.Contains(t, r.Findings[0].What, shows)
	}
	servers[1].Database = 1
	finds(t, servers[:3], patient(doctor.Options{}), is(doctor.Warning, "databases", ""))
}
