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

// message is what a server takes for one command and answers once: a command, or several that the joined script carries
// out in their order.
type message struct {
	requests []Op[call]
	source   bool // with the source of its script
	tracked  bool // CLIENT CACHING YES goes before it
}

// packLocked makes messages of what was taken from the queue.
func (c *conn) packLocked() {
	clear(c.batch)
	c.batch = c.batch[:0]
	for rest := c.requests; len(rest) > 0; {
		n := 1
		if run := joinable(rest); run >= minJoined && !c.apart {
			n = run
		}
		m := message{requests: rest[:n]}
		first := rest[0].Item.cmd
		switch {
		case n > 1:
			m.source = c.teaches(joinedScript)
		case first.kind == observe:
			// By its source, as a repetition after NOSCRIPT would not be tracked.
			m.source, m.tracked = true, c.asked && !c.refused
		default:
			m.source = rest[0].Again || c.teaches(first.script)
		}
		if m.tracked {
			c.expected.push(0)
		}
		c.expected.push(n)
		c.batch = append(c.batch, m)
		rest = rest[n:]
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
	for _, m := range c.batch {
		if m.tracked {
			c.words = append(c.words[:0], "CLIENT", "CACHING", "YES")
			if err := c.put(c.words); err != nil {
				return err
			}
		}
		c.words = m.words(c.words[:0])
		if err := c.put(c.words); err != nil {
			return err
		}
	}
	return c.flush()
}

// words appends the words of the message.
func (m message) words(words []string) []string {
	if len(m.requests) == 1 {
		return m.requests[0].Item.cmd.words(words, m.source)
	}
	words = append(joinedScript.run(words, m.source), strconv.Itoa(2*len(m.requests)))
	times := []string{"", ""} // the TTL and the time, which are usually the same for all acquires
	if first := m.requests[0].Item.cmd; first.kind == fencedAcquire {
		times = first.args[1:3]
	}
	forms := make([]byte, 0, batchSize)
	for _, r := range m.requests {
		cmd := r.Item.cmd
		words = append(words, cmd.key, cmd.counter)
		switch {
		case cmd.kind == release:
			forms = append(forms, 'r')
		case slices.Equal(cmd.args[1:], times): // and no argument more
			forms = append(forms, 's')
		default:
			forms = append(forms, '0'+byte(len(cmd.args)))
		}
	}
	words = append(words, string(forms), times[0], times[1])
	for i, r := range m.requests {
		args := r.Item.cmd.args
		if forms[i] == 's' {
			args = args[:1]
		}
		words = append(words, args...)
	}
	return words
}

// partsLocked takes apart the reply to n joined commands. It returns nil if the reply is an error of all of them. alone
// reports that none was carried out, and that each may be by itself.
func (c *conn) partsLocked(v *value, n int) (parts []value, alone bool) {
	err := v.err()
	if err == nil {
		if v.kind == '*' && len(v.items) == n {
			return v.items, false
		}
		c.apart = true // and what was answered is nothing that a command of its own could be answered with
		return slices.Repeat([]value{{kind: '?', text: []byte(v.String())}}, n), false
	}
	switch serverCode(err) {
	case "NOSCRIPT":
		c.taught = slices.DeleteFunc(c.taught, func(s *Script) bool { return s == joinedScript })
		return nil, true
	case "NOPERM": // perhaps for one of the keys
		return nil, true
	case "CROSSSLOT": // the server is a node of a cluster
		c.apart = true
		return nil, true
	case "ERR":
		c.apart = true
	}
	return nil, false
}
