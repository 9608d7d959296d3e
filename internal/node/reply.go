package node

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// NoTTL is the TTL of a key that never expires.
const NoTTL time.Duration = math.MaxInt64

// MaxToken is how many bytes a lock's key holds at most, the number behind the token included. What is longer is somebody's
// data ([nodeerr.ErrForeign]): the longest value of ours has some 320, and other clients use less. The scripts know the limit too.
const MaxToken = 1024

// Reply is the answer to one command on one node.
type Reply struct {
	Answer quorum.Answer
	// Err is the reason for any answer but Yes.
	Err error
	// Command is the name of the command that the server was sent last for it: SET, EVALSHA, EVAL or another of Redis. It is empty
	// if none was.
	Command string
	// Server identifies the server process that answered (its run_id). It is empty if the command was not answered or the server
	// does not report it.
	Server string
	// Value is what the key holds, MaxToken bytes at most, and TTL how much longer, if an Observe was answered with Yes. TTL is in
	// whole milliseconds: 0 in the last one, NoTTL for ever.
	Value string
	TTL   time.Duration
	// Tracked reports, for a command that was to be tracked and that the server has carried out, that the next change to the key
	// is reported to the Listeners.
	Tracked bool
	// Number is what an AcquireFenced that was answered with Yes was granted: from 1 to below 2^53.
	Number uint64
}

// Receiver receives the replies to the commands that were sent for it, one for each. Reply is called on a goroutine of
// the node, or within [Node.Send]. It must not block.
type Receiver interface {
	Reply(node int, reply Reply)
}

// LateReceiver is a Receiver to which the answer matters even after Reply has reported that there was none in time (Unknown),
// since it shows what the command has done. ReplyLate is called in order with the other answers and pushes of the connection, so
// it may overtake that report, which comes from another goroutine. If the connection breaks first, it is not called.
type LateReceiver interface {
	Receiver
	ReplyLate(node int, reply Reply)
}

// parse turns what a server has sent in answer to the command into a reply.
func (c *Command) parse(v *value) Reply {
	if refusal := v.refusal(); refusal != nil {
		if c.needsToken() && errors.Is(refusal, nodeerr.ErrForeign) { // the scripts report the type of the key, and of no other
			return Reply{Answer: quorum.No, Err: refusal}
		}
		return Reply{Answer: quorum.Refused, Err: refusal}
	}
	if c.locks() && c.kind != probe && v.kind == '_' {
		return Reply{Answer: quorum.No, Err: nodeerr.ErrHeld}
	}
	yes := false
	switch c.kind {
	case fencedAcquire:
		if v.kind == ':' && v.num > 0 && v.num < maxNumber {
			return Reply{Answer: quorum.Yes, Number: uint64(v.num)}
		}
	case acquire, tracking:
		yes = v.isOK()
	case observe:
		return parseObserve(v)
	case probe:
		yes = v.kind == '_'
	case publish:
		yes = v.kind == ':' // how many have received it
	case ping:
		yes = v.kind == '+' && string(v.text) == "PONG"
	case subscription:
		yes = v.kind == '>'
	default:
		return c.parseCode(v)
	}
	if yes {
		return Reply{Answer: quorum.Yes}
	}
	return unexpected(v)
}

// parseCode parses the number that scripts return.
func (c *Command) parseCode(v *value) Reply {
	switch {
	case v.kind != ':':
	case v.num == 1:
		return Reply{Answer: quorum.Yes}
	case v.num == 0:
		return Reply{Answer: quorum.No, Err: nodeerr.ErrAbsent}
	case v.num == -1:
		return Reply{Answer: quorum.No, Err: nodeerr.ErrHeld}
	case v.num == -2 && (c.kind == release || c.kind == deletion):
		return Reply{Answer: quorum.No, Err: errHeldForEver}
	case v.num == -3 && c.needsToken():
		return Reply{Answer: quorum.No, Err: errTooLong}
	case v.num == -4 && c.kind == extend && c.counter != "":
		return Reply{Answer: quorum.No, Err: errNoCounter}
	case v.num == 2 && c.kind == extend:
		return Reply{Answer: quorum.Recreated, Err: nodeerr.ErrRecreated}
	}
	return unexpected(v)
}

var (
	errHeldForEver = fmt.Errorf("%w: %w", nodeerr.ErrHeld, nodeerr.ErrNoExpiry)
	errNoCounter   = fmt.Errorf("%w, and is not re-created, as its fence counter is another program's: %w", nodeerr.ErrAbsent, nodeerr.ErrForeign)
	errTooLong     = fmt.Errorf("%w: a string of more than %d bytes", nodeerr.ErrForeign, MaxToken)
)

// parseObserve parses what observe.lua returns.
func parseObserve(v *value) Reply {
	if v.kind == '_' {
		return Reply{Answer: quorum.No, Err: nodeerr.ErrAbsent}
	}
	if v.kind != '*' || len(v.items) != 2 || !v.items[0].isText() || v.items[1].kind != ':' || v.items[1].num < -1 {
		return unexpected(v)
	}
	if len(v.items[0].text) > MaxToken {
		return Reply{Answer: quorum.Refused, Err: errTooLong}
	}
	return Reply{Answer: quorum.Yes, Value: string(v.items[0].text), TTL: TTL(v.items[1].num)}
}

// TTL returns the TTL that the reply to a PTTL stands for: NoTTL for -1.
func TTL(ms int64) time.Duration {
	if ms < 0 {
		return NoTTL
	}
	return time.Duration(min(ms, maxTTL.Milliseconds())) * time.Millisecond
}

// maxTTL is the longest TTL that is reported. A server may name thousands of years, which a time.Duration cannot hold.
const maxTTL = 100 * 365 * 24 * time.Hour

func unexpected(v *value) Reply {
	return Reply{Answer: quorum.Unknown, Err: fmt.Errorf("%w: %s", nodeerr.ErrProtocol, v)}
}

// String renders an unexpected value within the bounds of an error message.
func (v *value) String() string {
	if v.hidden {
		return hiddenText
	}
	switch v.kind {
	case '*', '~', '%', '>':
		return fmt.Sprintf("an array of %d values", len(v.items))
	case ':':
		return fmt.Sprint(v.num)
	case '_':
		return "null"
	}
	return fmt.Sprintf("%.80q", v.text)
}
