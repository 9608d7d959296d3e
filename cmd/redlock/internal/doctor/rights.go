package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// The lines of docs/operations.md, Permissions.
const (
	plainLine = iota
	identityLine
	wakingLine
	fencingLine
	connectionLine
	sharedLine
)

// aclLine is one line of rights. The first of its words may contain the key prefix, for which it has %s.
type aclLine struct {
	purpose string
	words   string
	why     string // what does not work without it
}

var aclLines = []aclLine{
	plainLine: {"plain locks", "~%s* +set +getrange +del +pttl +pexpire +eval +evalsha",
		"Nothing works without these rights; without +evalsha alone each script goes by its source, which costs the network and the server more."},
	identityLine: {"identities and connections", "~quorumlock:* +ping +info +client|id +client|kill",
		"With the restart guard the node stays quarantined; a server that is configured twice may count twice; an acquire that was lost with its connection may keep the lock taken until its TTL."},
	wakingLine: {"waking waiters", "&quorumlock:* +client|tracking +client|caching +subscribe +unsubscribe +publish",
		"Waiters poll with back-off, in no order among processes; a holder notices only with the next renewal that its lock was deleted."},
	fencingLine: {"fencing", "~{%s*}:fence +incrby +time",
		"Acquires with fencing are rejected."},
	connectionLine: {"databases and client names", "+select +client|setname",
		"URLs with a database, or the option pool.WithClientName, do not connect."},
	sharedLine: {"shared locks and slots", "~{%s*}:sharers ~{%s*}:wanted ~{%s*}:slots +time +pexpireat +zadd +zrem +zremrangebyscore +zcard +zcount +zscore +zrangebyscore +zrevrange",
		"Shared locks and slots are rejected; without the right to the key of waiting processes, writers may wait for ever."},
}

// stampKeys is the rule for the stamps of nodes.
const stampKeys = "~quorumlock:*"

// rules returns the words of the line for a key prefix.
func (l aclLine) rules(prefix string) []string {
	return strings.Fields(strings.ReplaceAll(l.words, "%s", prefix))
}

// aclFix is the command that gives the user the rights of a line.
func aclFix(f *facts, line int, prefix string) string {
	rules := aclLines[line].rules(prefix)
	for i := range rules {
		rules[i] = f.rule(rules[i])
	}
	return "ACL SETUSER " + f.user + " " + strings.Join(rules, " ")
}

// rule returns a rule as the server needs it: in a cluster, keys and channels have the tags of the nodes.
func (f *facts) rule(rule string) string {
	if f.inCluster() && strings.ContainsAny(rule[:1], "~&") {
		return rule[:1] + "{q*}" + rule[1:]
	}
	return rule
}

// attempt is a right that was tried.
type attempt struct {
	line    int
	rule    string // that grants it
	access  string // the rule that grants its key or channel; "" if it has none
	refusal *nodeerr.ServerError
}

// rightsChecks look at what the user may do.
var rightsChecks = []check{
	{name: "commands", docs: "operations.md#server-settings", node: commands,
		why: "EVAL and the commands that scripts use cannot be missing; without EVALSHA each script goes by its source; without CLIENT, INFO, SUBSCRIBE or PUBLISH waiters poll, and servers are not identified."},
	{name: "rights-locks", docs: "operations.md#permissions", node: rights(plainLine)},
	{name: "rights-identity", docs: "operations.md#permissions", node: rights(identityLine)},
	{name: "rights-waking", docs: "operations.md#permissions", node: rights(wakingLine)},
	{name: "rights-fencing", docs: "operations.md#permissions", node: rights(fencingLine), when: func(o *Options) bool { return o.Fencing }},
	{name: "rights-shared", docs: "operations.md#permissions", node: rights(sharedLine), when: func(o *Options) bool { return o.Shared }},
}

// try does what the programs do, command by command, and notes what is refused. Each key that it makes has a TTL.
func (f *facts) try(ctx context.Context, c *conn, o *Options, key string) {
	counter, sharers, wanted, slots := f.key("{"+key+"}:fence"), f.key("{"+key+"}:sharers"), f.key("{"+key+"}:wanted"), f.key("{"+key+"}:slots")
	key = f.key(key)
	observe := form.Scripts["observe"]
	keys, counters := "~"+o.Prefix+"*", "~{"+o.Prefix+"*}:fence"
	allSharers, allWanted, allSlots := "~{"+o.Prefix+"*}:sharers", "~{"+o.Prefix+"*}:wanted", "~{"+o.Prefix+"*}:slots"
	soon := strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)
	const ttl = "10000"
	stamp := f.key("quorumlock:doctor-" + rand.Text())
	tries := []struct {
		line         int
		rule, access string
		words        []string
	}{
		{plainLine, "+set", keys, []string{"SET", key, "doctor", "NX", "PX", ttl}},
		{plainLine, "+getrange", keys, []string{"GETRANGE", key, "0", "0"}},
		{plainLine, "+pttl", keys, []string{"PTTL", key}},
		{plainLine, "+pexpire", keys, []string{"PEXPIRE", key, ttl}},
		{plainLine, "+eval", keys, []string{"EVAL", observe.Source, "1", key}},
		{plainLine, "+evalsha", keys, []string{"EVALSHA", observe.Hash, "1", key}},
		{plainLine, "+del", keys, []string{"DEL", key}},
		{identityLine, "+set", stampKeys, []string{"SET", stamp, "doctor", "PX", ttl}},
		{identityLine, "+getrange", stampKeys, []string{"GETRANGE", stamp, "0", "0"}},
		{identityLine, "+pttl", stampKeys, []string{"PTTL", stamp}},
		{identityLine, "+ping", "", []string{"PING"}},
		{identityLine, "+info", "", []string{"INFO", "server"}},
		{identityLine, "+client|id", "", []string{"CLIENT", "ID"}},
		{fencingLine, "+set", counters, []string{"SET", counter, "1", "PX", ttl}},
		{fencingLine, "+incrby", counters, []string{"INCRBY", counter, "1"}},
		{fencingLine, "+del", counters, []string{"DEL", counter}},
		{fencingLine, "+time", "", []string{"TIME"}},
		{sharedLine, "+time", "", []string{"TIME"}},
		{sharedLine, "+zadd", allSharers, []string{"ZADD", sharers, "1", "doctor"}},
		{sharedLine, "+pexpireat", allSharers, []string{"PEXPIREAT", sharers, soon}},
		{sharedLine, "+zscore", allSharers, []string{"ZSCORE", sharers, "doctor"}},
		{sharedLine, "+zcount", allSharers, []string{"ZCOUNT", sharers, "0", "1"}},
		{sharedLine, "+zrem", allWanted, []string{"ZREM", wanted, "doctor"}},
		{sharedLine, "+zcard", allSlots, []string{"ZCARD", slots}},
		{sharedLine, "+zrangebyscore", allSharers, []string{"ZRANGEBYSCORE", sharers, "0", "1"}},
		{sharedLine, "+zrevrange", allSharers, []string{"ZREVRANGE", sharers, "0", "0"}},
		{sharedLine, "+zremrangebyscore", allSharers, []string{"ZREMRANGEBYSCORE", sharers, "0", "0"}},
		{sharedLine, "+zrem", allSharers, []string{"ZREM", sharers, "doctor"}},
		{wakingLine, "+client|tracking", "", []string{"CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"}},
		{wakingLine, "+client|caching", "", []string{"CLIENT", "CACHING", "YES"}},
	}
	_, _ = c.do(ctx, "HELLO", "3") // CLIENT TRACKING needs it
	fits := true                   // a counter is made with a TTL, or not at all
	for _, try := range tries {
		if try.line == fencingLine && (!o.Fencing || !fits) || try.line == sharedLine && !o.Shared {
			continue
		}
		_, refusal := c.do(ctx, try.words...)
		if try.line == fencingLine && try.rule == "+set" {
			fits = refusal == nil
		}
		if try.access == stampKeys && refusal != nil && refusal.Code == "NOPERM" && !aboutKey.MatchString(refusal.Message) {
			continue // the command is in line 1, and was tried before
		}
		if refusal == nil || try.line != wakingLine || f.resp3 == nil || refusal.Code == "NOPERM" { // CLIENT TRACKING needs RESP3, see the check resp3
			f.rights = append(f.rights, attempt{try.line, try.rule, try.access, refusal})
		}
	}
	_, _ = c.do(ctx, "DEL", stamp)
	if o.Shared {
		_, _ = c.do(ctx, "DEL", sharers) // which has no TTL if that was refused
	}
	f.tryMessages(ctx, c, o)
}

// tryMessages does what waiters do with a channel of its own, and ends a connection of its own.
func (f *facts) tryMessages(ctx context.Context, c *conn, o *Options) {
	if c.err != nil {
		return
	}
	second, err := f.connect(ctx, o)
	if err != nil {
		c.err = err
		return
	}
	defer second.Close()
	id, _ := second.do(ctx, "CLIENT", "ID")
	channel := f.key("quorumlock:doctor-" + rand.Text())
	for _, try := range []struct {
		by     *conn // RESP2 and RESP3 differ in whether the reply to SUBSCRIBE is one
		access string
		words  []string
	}{
		{second, "&quorumlock:*", []string{"SUBSCRIBE", channel}},
		{second, "", []string{"UNSUBSCRIBE", channel}}, // before a message comes in the place of its reply
		{c, "&quorumlock:*", []string{"PUBLISH", channel, "doctor"}},
	} {
		_, refusal := try.by.do(ctx, try.words...)
		f.rights = append(f.rights, attempt{wakingLine, "+" + strings.ToLower(try.words[0]), try.access, refusal})
	}

	words := []string{"CLIENT", "KILL", "ID", "0"} // no connection has it
	if own, is := id.(int64); is {
		words[3] = strconv.FormatInt(own, 10)
	}
	_, refusal := c.do(ctx, words...)
	f.rights = append(f.rights, attempt{identityLine, "+client|kill", "", refusal})
	if c.err == nil {
		c.err = second.err
	}
}

var (
	// aboutKey matches the NOPERM of servers about a key or a channel, and not about a command.
	aboutKey = regexp.MustCompile(`\b(keys?|channels?)\b`)
	// aboutCommand matches the error about a command that is not there.
	aboutCommand = regexp.MustCompile(`(?i)unknown (sub)?command`)
)

// refused reports whether a command was refused with a code.
func (f *facts) refused(code string) bool {
	return slices.ContainsFunc(f.rights, func(a attempt) bool { return a.refusal != nil && a.refusal.Code == code })
}

// needs reports whether locks need on a node what was tried.
func (x *examination) needs(f *facts, a attempt) bool {
	switch a.line {
	case plainLine, fencingLine, sharedLine:
		return a.rule != "+evalsha" // scripts go by their sources then
	}
	return (a.rule == "+info" || a.access == stampKeys) && x.guarded(f) // a node that cannot be stamped never grants then
}

// commands finds commands that were renamed or are not offered.
func commands(x *examination, f *facts) []Finding {
	var names []string
	severity := Warning
	for _, a := range f.rights {
		if a.refusal != nil && aboutCommand.MatchString(a.refusal.Message) {
			names = append(names, strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(a.rule, "+"), "|", " ")))
			if x.needs(f, a) {
				severity = Fault
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []Finding{{Severity: severity, What: "the server does not know " + strings.Join(slices.Compact(names), ", "),
		Fix: "remove rename-command for these from the server's file, and restart it; or use a service that offers them"}}
}

// rights returns a check of the rights of one line.
func rights(line int) func(*examination, *facts) []Finding {
	return func(x *examination, f *facts) []Finding {
		var lacking []string
		severity := Warning
		for _, a := range f.rights {
			if a.line != line || a.refusal == nil || a.refusal.Code != "NOPERM" {
				continue
			}
			if x.needs(f, a) {
				severity = Fault
			}
			rule := a.rule
			if a.access != "" && aboutKey.MatchString(a.refusal.Message) {
				rule = f.rule(a.access)
			}
			if !slices.Contains(lacking, rule) {
				lacking = append(lacking, rule)
			}
		}
		if len(lacking) == 0 {
			return nil
		}
		l := aclLines[line]
		return []Finding{{Severity: severity, Why: l.why,
			What: fmt.Sprintf("the user %s lacks rights for %s: %s", quoted(f.user), l.purpose, strings.Join(lacking, ", ")),
			Fix:  aclFix(f, line, x.Prefix)}}
	}
}
