package node

import (
	"regexp"
	"strconv"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

const (
	// batchSize is how many commands are written at a time, at most.
	batchSize = 64
	// minJoined is the least number of commands that are joined. The script that joins them has work of its own. For two
	// or three commands, this work costs the server as much as joining saves.
	minJoined = 4
)

// packLocked makes messages of the commands that were taken from the queue.
func (c *conn) packLocked(taken []wire.Op[pending]) {
	clear(c.requests)
	c.requests = c.requests[:0]
	for rest := taken; len(rest) > 0; {
		first := &rest[0].Item
		first.commands, first.caching, first.tracked = 1, false, false
		if run := c.joinable(rest); run >= minJoined && !c.apart {
			first.commands, first.script = run, first.cmd.Join.Script
			first.source = c.teaches(first.script)
		} else {
			first.script = c.proven.Carrier(first.cmd)
			first.source = rest[0].Again || first.cmd.BySource || c.teaches(first.script)
			first.caching = first.cmd.Tracked && c.asked && !c.refused
		}
		for i := range rest[:first.commands] {
			rest[i].Item.sent = first.cmd.Name(first.script, first.source)
			c.requests = append(c.requests, rest[i].Item)
		}
		rest = rest[first.commands:]
	}
}

// joinable returns how many requests at the beginning of the list can be joined.
func (c *conn) joinable(requests []wire.Op[pending]) int {
	for i, r := range requests {
		if r.Again || c.proven.Lacks(r.Item.cmd) || !requests[0].Item.cmd.Joins(r.Item.cmd) {
			return i
		}
	}
	return len(requests)
}

// send passes the messages to the transport and flushes it.
func (c *conn) send() error {
	for rest := c.requests; len(rest) > 0; rest = rest[rest[0].commands:] {
		if rest[0].caching {
			c.words = append(c.words[:0], "CLIENT", "CACHING", "YES")
			c.Put(c.words)
		}
		c.words = c.message(c.words[:0], rest[:rest[0].commands])
		c.Put(c.words)
	}
	return c.Flush()
}

// message appends the words of the message that carries out the requests.
func (c *conn) message(words []string, requests []pending) []string {
	first := &requests[0]
	if len(requests) == 1 {
		words = first.cmd.Words(words, first.script, first.source)
	} else {
		c.joined = c.joined[:0]
		for _, r := range requests {
			c.joined = append(c.joined, r.cmd)
		}
		words = first.cmd.Join.Words(first.script.Run(words, first.source), c.joined)
	}
	c.tagKeys(words, first.own)
	return words
}

// tagKeys puts the tag of the connection before the keys in a message, and before a channel. A cluster passes a message
// on to all its servers. So without the tag it would arrive once for each node, and before the release that it follows.
func (c *conn) tagKeys(words []string, purpose own) {
	if c.tag == "" || purpose == ping || purpose == tracking || purpose == identity { // there is no key
		return
	}
	keys := words[1:2]
	if words[0] == "EVAL" || words[0] == "EVALSHA" {
		n, _ := strconv.Atoi(words[2])
		keys = words[3:][:n]
	}
	for i := range keys {
		keys[i] = c.tag + keys[i]
	}
}

// reply returns the reply to a command.
func (c *conn) reply(cmd *wire.Command, v *wire.Value) wire.Reply {
	r := cmd.Reply(v)
	if c.tag != "" && r.Err != nil {
		r.Err = wire.InCluster(r.Err)
	}
	return r
}

// partsLocked splits the reply to a message into the replies to its commands. It returns nil if the whole reply answers
// each of its commands. alone reports that the server carried out none of them, and that each may be sent by itself.
func (c *conn) partsLocked(v *wire.Value, to *pending) (parts []wire.Value, alone bool) {
	n, code := to.commands, ""
	refusal := v.Refusal()
	if refusal != nil {
		code = refusal.Code
	}
	switch {
	case code == "NOSCRIPT":
		c.taught = nil
		return nil, true
	case to.sent == "EVALSHA" && refusesHashes(refusal):
		c.sources = true
		return nil, true
	case n == 1:
	case v.Kind == '*' && len(v.Items) == n:
		return v.Items, false
	case refusal == nil:
		// No command by itself can be answered with this, so that each of them rejects it.
		*v = wire.Value{Kind: '?', Text: []byte(v.String())}
	case code == "NOPERM": // perhaps only one of the keys is forbidden
		return nil, true
	case code == "CROSSSLOT": // the server is a node of a cluster
		c.apart = true
		return nil, true
	case code == "ERR":
		c.apart = true
	}
	return nil, false
}

// evalsha matches the name EVALSHA in the error of a server that refuses or does not know that command.
var evalsha = regexp.MustCompile("(?i)['`\"]evalsha['`\"]")

// refusesHashes reports whether a server has refused EVALSHA itself. It may still accept EVAL.
func refusesHashes(e *nodeerr.ServerError) bool {
	return e != nil && (e.Code == "NOPERM" || e.Code == "ERR") && evalsha.MatchString(e.Message)
}
