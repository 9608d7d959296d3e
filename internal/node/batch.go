package node

import (
	"slices"
	"strconv"
)

const (
	// batchSize is how many commands are written at a time.
	batchSize = 64
	// minJoined is how many commands are joined at least. The joined script has work of its own, which for two or three
	// commands costs the server as much as it saves.
	minJoined = 4
)

// packLocked makes messages of what was taken from the queue.
func (c *conn) packLocked(taken []Op[call]) {
	clear(c.requests)
	c.requests = c.requests[:0]
	for rest := taken; len(rest) > 0; {
		first := &rest[0].Item
		first.commands, first.caching, first.tracked = 1, false, false
		if run := joinable(rest); run >= minJoined && !c.apart {
			first.commands = run
		}
		if first.commands > 1 {
			first.source = c.teaches(joinedScript)
		} else {
			// An observation goes by its source, as a repetition after NOSCRIPT would come late.
			first.source = rest[0].Again || first.cmd.kind == observe || c.teaches(first.cmd.script)
			first.caching = first.cmd.tracked && c.asked && !c.refused
		}
		for i := range rest[:first.commands] {
			rest[i].Item.sent = first.cmd.name(first.source)
			c.requests = append(c.requests, rest[i].Item)
		}
		rest = rest[first.commands:]
	}
}

// joinable returns how many requests at the beginning can be joined. No acquire is joined behind a leading release: Redis
// skips the out-of-memory check after a script's first write.
func joinable(requests []Op[call]) int {
	for i, r := range requests {
		cmd := r.Item.cmd
		if !cmd.joins() || r.Again || cmd.kind == fencedAcquire && requests[0].Item.cmd.kind != fencedAcquire {
			return i
		}
	}
	return len(requests)
}

// send hands the messages to the transport.
func (c *conn) send() error {
	for rest := c.requests; len(rest) > 0; rest = rest[rest[0].commands:] {
		if rest[0].caching {
			c.words = append(c.words[:0], "CLIENT", "CACHING", "YES")
			c.put(c.words)
		}
		c.words = message(c.words[:0], rest[:rest[0].commands])
		c.put(c.words)
	}
	return c.flush()
}

// message appends the words of the message that carries out the requests.
func message(words []string, requests []call) []string {
	first := requests[0]
	if len(requests) == 1 {
		return first.cmd.words(words, first.source)
	}
	words = append(joinedScript.run(words, first.source), strconv.Itoa(2*len(requests)))
	times := []string{"", ""} // the TTL and the time, which are usually the same for all acquires
	if first.cmd.kind == fencedAcquire {
		times = first.cmd.args[1:3]
	}
	forms := make([]byte, 0, batchSize)
	for _, r := range requests {
		words = append(words, r.cmd.key, r.cmd.counter)
		switch {
		case r.cmd.kind == release:
			forms = append(forms, 'r')
		case slices.Equal(r.cmd.args[1:], times): // and no argument more
			forms = append(forms, 's')
		default:
			forms = append(forms, '0'+byte(len(r.cmd.args)))
		}
	}
	words = append(words, string(forms), times[0], times[1])
	for i, r := range requests {
		args := r.cmd.args
		if forms[i] == 's' {
			args = args[:1]
		}
		words = append(words, args...)
	}
	return words
}

// partsLocked takes apart the reply to n commands. It returns nil if the reply is that to each of them. alone reports that
// none was carried out, and that each may be by itself.
func (c *conn) partsLocked(v *value, n int) (parts []value, alone bool) {
	code := ""
	refusal := v.refusal()
	if refusal != nil {
		code = refusal.Code
	}
	switch {
	case code == "NOSCRIPT":
		c.taught = nil
		return nil, true
	case n == 1:
	case v.kind == '*' && len(v.items) == n:
		return v.items, false
	case refusal == nil:
		// It is nothing that a command of its own could be answered with.
		*v = value{kind: '?', text: []byte(v.String())}
	case code == "NOPERM": // perhaps for one of the keys
		return nil, true
	case code == "CROSSSLOT": // the server is a node of a cluster
		c.apart = true
		return nil, true
	case code == "ERR":
		c.apart = true
	}
	return nil, false
}
