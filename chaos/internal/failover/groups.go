package failover

import "github.com/quorumlock/quorumlock/internal/testredis"

// groups are nodes that Sentinels fail over.
type groups struct {
	sentinels *testredis.Sentinels
	all       [Count]*testredis.Group
}

var groupFaults = []Fault{
	{"kill", true, crash{}.run},
	{"freeze", true, crash{freezes: true}.run},
	{"late-kill", true, crash{late: true}.run},
	{"late-kill", true, crash{late: true}.run},
	{"late-freeze", true, crash{late: true, freezes: true}.run},
	{"late-freeze", true, crash{late: true, freezes: true}.run},
	{"fail-over", true, failsOver},
}

var groupNames = [Count]string{"locks-a", "locks-b", "locks-c"}

func newGroups(h *host) system {
	g := &groups{sentinels: testredis.NewSentinels(h, groupNames[:]...)}
	for i, name := range groupNames {
		g.all[i] = g.sentinels.Group(name)
	}
	return g
}

func (g *groups) URLs() (urls []string) {
	for _, name := range groupNames {
		urls = append(urls, g.sentinels.URL(name))
	}
	return urls
}

func (g *groups) primary(node int) *testredis.Process    { return g.all[node].Primary() }
func (g *groups) replicas(node int) []*testredis.Process { return g.all[node].Replicas() }
func (g *groups) lag(node int)                           { g.all[node].Lag() }

func (g *groups) failOver(node int) { g.all[node].FailOver() }

func (g *groups) successor(node int, former *testredis.Process, _ []*testredis.Process) *testredis.Process {
	return g.all[node].WaitForPrimary(former)
}

func (g *groups) restored(node int, _, primary *testredis.Process) {
	g.all[node].WaitForReplicas(primary)
}

func (g *groups) key(_ int, name string) string { return name }
