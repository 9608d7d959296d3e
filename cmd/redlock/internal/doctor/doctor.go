package doctor

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
)

// Options say what the programs that lock assume of the servers.
type Options struct {
	Prefix       string        // of the keys of locks (redlock.WithKeyPrefix)
	Timeout      time.Duration // of one command of the examination; 0 means 300 ms. The first of a connection has client.ConnectTimeout
	NodeTimeout  time.Duration // of the programs (pool.WithTimeout); 0 means 300 ms
	TTL          time.Duration // the longest of the programs; 0 means unknown
	RestartGuard time.Duration // of the programs (pool.WithRestartGuard); 0 means none
	Durable      []string      // the addresses of the nodes that the programs declare durable (pool.WithDurable); AllNodes means all of them
	Fencing      bool          // the programs use fencing tokens
	Shared       bool          // the programs use shared locks or slots
	Samples      int           // how many PINGs measure the latency; 0 means 50
	Keys         int           // how many keys of a node are looked at, at most; 0 means 20000
	Prepare      bool          // the nodes that the RestartGuard is for are stamped, as by a program
	Watch        time.Duration // how long locks on a minority of the nodes are watched, if there are any; 0 means 4 s
	Only         []string      // the names of the checks that are made; none means all
}

// AllNodes stands for all addresses in Options.Durable.
const AllNodes = "all"

// What options are if they are 0.
const (
	defaultTimeout     = 300 * time.Millisecond
	defaultNodeTimeout = 300 * time.Millisecond
	defaultSamples     = 50
	defaultKeys        = 20000
	defaultWatch       = 4 * time.Second // a lock with the default TTL is renewed within that time
)

// docsURL is what the page and anchor of a check are added to.
const docsURL = "https://github.com/quorumlock/quorumlock/blob/main/docs/"

// The places that explain errors.
const (
	failuresDocs = "failures.md#when-something-fails"
	answersDocs  = "failures.md#what-a-server-answered"
	waitsDocs    = "failures.md#what-lock-waits-for"
)

// check looks at one thing: at each node, or at all together.
type check struct {
	name string
	docs string                                   // the page in docs/, and the anchor
	why  string                                   // a fault of that kind matters
	when func(o *Options) bool                    // nil means always
	need func(f *facts) string                    // returns what is missing to examine a node; nil means that nothing can be
	node func(x *examination, f *facts) []Finding // looks at a node that was reached
	set  func(x *examination) []Finding           // looks at the nodes together
}

// checks are all checks, in the order in which their findings are reported.
var checks = slices.Concat(setChecks, reachChecks, setupChecks, clusterChecks, memoryChecks, persistenceChecks, guardChecks, clockChecks, rightsChecks, keyChecks, lockChecks)

// Names returns the names of all checks.
func Names() (names []string) {
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

// examination is one run of the checks.
type examination struct {
	Options
	facts      []*facts // facts[i] is about the i-th server
	strayed    []strayed
	findings   []Finding
	unexamined []Unexamined
}

// Examine looks at all servers at once and returns what it found. It changes nothing that stays on a server, except for the stamps
// of Options.Prepare. An error means that ctx has ended.
func Examine(ctx context.Context, servers []*node.Server, o Options) (*Report, error) {
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.NodeTimeout = cmp.Or(o.NodeTimeout, defaultNodeTimeout)
	o.Samples = cmp.Or(o.Samples, defaultSamples)
	o.Keys = cmp.Or(o.Keys, defaultKeys)
	o.Watch = cmp.Or(o.Watch, defaultWatch)
	if o.Prepare && len(o.Only) > 0 { // nobody wants to miss that it has failed
		o.Only = append(slices.Clone(o.Only), prepareCheck)
	}
	x := &examination{Options: o}
	var gathering sync.WaitGroup
	for _, s := range servers {
		f := newFacts(s)
		x.facts = append(x.facts, f)
		gathering.Go(func() { f.gather(ctx, &x.Options) })
	}
	gathering.Wait()
	if x.makes("keys-other-list") {
		x.watch(ctx)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return x.report(), nil
}

// makes reports whether a check is among those to be made.
func (o *Options) makes(name string) bool { return len(o.Only) == 0 || slices.Contains(o.Only, name) }

// durable reports whether the programs declare a node durable.
func (o *Options) durable(f *facts) bool { return Durable(o.Durable, f.addr) }

// guarded reports whether the restart guard of the programs is for a node.
func (o *Options) guarded(f *facts) bool { return Guarded(o.RestartGuard, o.Durable, f.addr) }

// Guarded reports whether a restart guard is for a node: nodes that are declared durable need none.
func Guarded(guard time.Duration, durable []string, addr string) bool {
	return guard > 0 && !Durable(durable, addr)
}

// Durable reports whether a node is among those that are declared durable, as in Options.Durable.
func Durable(declared []string, addr string) bool {
	return slices.Contains(declared, addr) || slices.Contains(declared, AllNodes)
}

// report makes the checks on what was gathered.
func (x *examination) report() *Report {
	r := &Report{Findings: []Finding{}, Unexamined: []Unexamined{}}
	for _, f := range x.facts {
		r.Nodes = append(r.Nodes, f.addr)
		r.Servers = append(r.Servers, f.server())
	}
	for i := range checks {
		c := &checks[i]
		if c.when != nil && !c.when(&x.Options) || !x.makes(c.name) {
			continue
		}
		r.Checks = append(r.Checks, c.name)
		x.make(c)
	}
	for _, severity := range []Severity{Fault, Warning} {
		for _, f := range x.findings {
			if f.Severity == severity {
				r.Findings = append(r.Findings, f)
			}
		}
	}
	r.Unexamined = append(r.Unexamined, x.unexamined...)
	return r
}

// make makes one check, on each node or on all together.
func (x *examination) make(c *check) {
	for _, f := range x.facts {
		needs := ""
		if c.need != nil {
			needs = c.need(f)
		}
		switch {
		case f.err != nil && c.name != unreachable:
		case needs != "":
			x.unexamined = append(x.unexamined, Unexamined{c.name, f.addr, needs})
		case c.node != nil:
			x.add(c, f.addr, c.node(x, f))
		}
	}
	if c.set != nil {
		x.add(c, "", c.set(x))
	}
}

// add adds the findings of a check, which leave out what all of its findings have in common.
func (x *examination) add(c *check, addr string, found []Finding) {
	for _, f := range found {
		f.Check, f.Docs = c.name, docsURL+c.docs
		f.Node, f.Why = cmp.Or(f.Node, addr), cmp.Or(f.Why, c.why)
		x.findings = append(x.findings, f)
	}
}

// found reports whether a check has found something on a node.
func (x *examination) found(f *facts, names ...string) bool {
	return slices.ContainsFunc(x.findings, func(is Finding) bool { return is.Node == f.addr && slices.Contains(names, is.Check) })
}
