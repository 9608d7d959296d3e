package testredis

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// SentinelSetup says how sentinels and the servers that they watch are started. The zero value is one without
// passwords.
type SentinelSetup struct {
	Args     []string // for each server of a group, as for [Real]: with --requirepass it needs --masterauth too
	Password string   // of the sentinels themselves
	IPv6     bool     // all know each other by the address ::1, and name it to clients
}

// Sentinels are three sentinels that watch groups of a primary and two replicas each. They exchange news and
// act some times faster than sentinels that were not told to, on Redis 7.0 and newer.
type Sentinels struct {
	tb        testing.TB
	host      string // by which all know each other
	processes []*Process
	groups    map[string]*Group
}

// NewSentinels starts three sentinels for a test, and a group for each name, as [Real] does its servers. When
// it returns the replicas have attached and the sentinels know them, and each other.
func NewSentinels(tb testing.TB, groups ...string) *Sentinels {
	tb.Helper()
	return SentinelSetup{}.New(tb, groups...)
}

// bind is what has processes listen on ::1 too, if they know each other by that.
func (setup SentinelSetup) bind() []string {
	if setup.IPv6 {
		return []string{"--bind", "127.0.0.1", "::1"}
	}
	return nil
}

// New does the same as [NewSentinels] with a setup.
func (setup SentinelSetup) New(tb testing.TB, groups ...string) *Sentinels {
	tb.Helper()
	// With a file of its own a server stays what the sentinels made it when it is started again.
	args := []string{"server.conf", "--repl-diskless-sync-delay", "0", "--replica-serve-stale-data", "yes"}
	args = append(append(args, setup.bind()...), setup.Args...)
	servers := Real(tb, groupSize*len(groups), args...)
	args = append([]string{"sentinel.conf", "--sentinel"}, setup.bind()...)
	if setup.Password != "" {
		args = append(args, "--requirepass", setup.Password)
	}
	s := &Sentinels{tb: tb, host: "127.0.0.1", processes: Real(tb, 3, args...), groups: make(map[string]*Group)}
	if setup.IPv6 {
		s.host = "::1"
	}
	for i, name := range groups {
		s.groups[name] = &Group{sentinels: s, name: name, servers: servers[i*groupSize:][:groupSize:groupSize]}
		s.groups[name].attach()
	}
	for _, p := range s.processes {
		hurry(p)
		for _, g := range s.groups {
			g.monitor(p)
		}
	}
	for _, g := range s.groups {
		eventually(tb, "the sentinels know the group and each other", func() bool {
			return !slices.ContainsFunc(s.processes, func(p *Process) bool { return !g.whole(p) })
		})
	}
	return s
}

// Processes returns the sentinels. Those that are stopped or frozen are not asked and not waited for.
func (s *Sentinels) Processes() []*Process { return slices.Clone(s.processes) }

// Addrs returns the addresses of the sentinels.
func (s *Sentinels) Addrs() []string { return addrs(s.processes) }

// URL returns the URL of a group, without passwords.
func (s *Sentinels) URL(group string) string {
	return "redis+sentinel://" + strings.Join(s.Addrs(), ",") + "/" + group
}

// Group returns the group of a name.
func (s *Sentinels) Group(name string) *Group {
	s.tb.Helper()
	if s.groups[name] == nil {
		s.tb.Fatalf("there is no group %q", name)
	}
	return s.groups[name]
}

// hurry has a sentinel look and tell more often, and spend less time in the mode that it enters when it was
// frozen. Redis 6.2 cannot.
//
// A failover cuts the connections of sentinels, which then count from the last answer: a ping-period near
// down-after-milliseconds lets them take a new primary for down. They pass over a replica whose last answer to
// INFO, asked for each second, is older than 5 pings. And they make a replica again of what another sentinel
// promotes, if they do not hear of it within 4 publish-periods.
func hurry(sentinel *Process) {
	_, _ = sentinel.Do("SENTINEL", "DEBUG",
		"ping-period", 400, "info-period", 500, "publish-period", 500, "tilt-period", 1000)
}

// attach makes two of the servers replicas of the first.
func (g *Group) attach() {
	g.sentinels.tb.Helper()
	_, port, _ := net.SplitHostPort(g.servers[0].Addr())
	for _, p := range g.servers[1:] {
		do(g.sentinels.tb, p, "REPLICAOF", g.sentinels.host, port)
		do(g.sentinels.tb, p, "CONFIG", "REWRITE")
	}
	g.WaitForReplicas(g.servers[0])
}

// monitor has a sentinel watch the group.
func (g *Group) monitor(sentinel *Process) {
	g.sentinels.tb.Helper()
	_, port, _ := net.SplitHostPort(g.servers[0].Addr())
	do(g.sentinels.tb, sentinel, "SENTINEL", "MONITOR", g.name, g.sentinels.host, port, 2)
	down := 1000
	if IsOld(g.sentinels.tb, g.servers[0]) {
		down = 3000 // see hurry
	}
	settings := []any{"SET", g.name, "down-after-milliseconds", down, "failover-timeout", 2000, "parallel-syncs", 2}
	if g.servers[0].password != "" {
		settings = append(settings, "auth-pass", g.servers[0].password)
	}
	do(g.sentinels.tb, sentinel, "SENTINEL", settings...)
}

// whole reports whether a sentinel knows all servers of the group and the other sentinels, and finds nothing wrong.
func (g *Group) whole(sentinel *Process) bool {
	well := func(list string, n int, flags string) bool {
		entries, err := redis.Values(sentinel.Do("SENTINEL", list, g.name))
		for _, entry := range entries {
			fields, _ := redis.StringMap(entry, nil)
			well := fields["flags"] == flags && (list != "REPLICAS" || fields["master-link-status"] == "ok")
			if !well {
				return false
			}
		}
		return err == nil && len(entries) == n
	}
	fields, err := g.master(sentinel)
	return err == nil && fields["flags"] == "master" &&
		well("REPLICAS", groupSize-1, "slave") && well("SENTINELS", len(g.sentinels.processes)-1, "sentinel")
}

// master returns what a sentinel knows about the primary.
func (g *Group) master(sentinel *Process) (map[string]string, error) {
	return redis.StringMap(sentinel.Do("SENTINEL", "MASTER", g.name))
}

// named returns the server that a sentinel names as the primary, to clients too; nil if it names none.
func (g *Group) named(sentinel *Process) *Process {
	addr, err := redis.Strings(sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", g.name))
	if err != nil || len(addr) != 2 {
		return nil
	}
	return at(g.servers, net.JoinHostPort("127.0.0.1", addr[1]))
}

// addrs returns the address of each process.
func addrs(processes []*Process) []string {
	all := make([]string, len(processes))
	for i, p := range processes {
		all[i] = p.Addr()
	}
	return all
}

// at returns the process of an address; nil if there is none.
func at(processes []*Process, addr string) *Process {
	i := slices.IndexFunc(processes, func(p *Process) bool { return p.Addr() == addr })
	if i < 0 {
		return nil
	}
	return processes[i]
}

// replication returns a field of INFO replication; "" if the server does not answer.
func replication(p *Process, name string) string {
	text, _ := redis.String(p.Do("INFO", "replication"))
	return field(text, name)
}

// follows reports whether a replica has attached to a primary.
func follows(replica, primary *Process) bool {
	_, port, _ := net.SplitHostPort(primary.Addr())
	return replication(replica, "master_port") == port && replication(replica, "master_link_status") == "up"
}
