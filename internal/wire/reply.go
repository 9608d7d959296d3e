package wire

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
	// Fence is the number that a fenced acquire was granted: from 1 to below 2^53. 0 means none.
	Fence uint64
	// Slot is the slot that an acquire was granted, or that a token has. The zero value means none.
	Slot Slot
	// WriterWaits reports that a writer waits for a key that several share.
	WriterWaits bool
	// Same reports that the key is as it was, though the command could change it.
	Same bool
	// Each has what a command about several keys, or several who share a key, was answered for each of them, if the server has carried it out.
	Each []Reply
	// Late marks an answer that came after a Reply that there was none in time (Unknown), see [Command.WantsLate].
	Late bool
}

// Number returns the number that a vote has to agree on: Fence, or that of Slot. 0 means that there is none.
func (r *Reply) Number() uint64 { return r.Fence + uint64(r.Slot) }

// Slot is one of the slots of a name. The zero value means none.
type Slot uint16

// SlotAt returns the slot with an index from 0 on.
func SlotAt(i int) Slot { return Slot(1 + i) } //nolint:gosec // form.MaxSlots is far below

// At returns the index of the slot. ok is false if there is none.
func (s Slot) At() (i int, ok bool) { return int(s) - 1, s > 0 }

// Receiver receives the replies to the commands that were sent for it: one for each, and a late one for those that want it. Reply is
// called on a goroutine of the node, never within Send. It must not block, and not keep the reply.
type Receiver interface {
	Reply(tag Tag, reply *Reply)
}

// Tag is what the sender of a command knows the reply by. Package wire does not look at it.
type Tag struct {
	Serial uint32
	Sight  Sight // of an observation
	What   uint8
	Node   uint16
}

// Sight is for whom an observation is: a kind of lock, and how many slots there are. It decides what is in the way.
type Sight struct {
	Kind  uint8
	Slots uint16
}

// Reply makes the reply to the command of what a server has sent in answer to it.
func (c *Command) Reply(v *Value) Reply {
	refusal := v.Refusal()
	switch {
	case refusal == nil:
		return c.Parse(v)
	case c.needsToken() && errors.Is(refusal, nodeerr.ErrForeign): // the scripts report the type of the key, and of no other
		return Reply{Answer: quorum.No, Err: refusal}
	}
	return Reply{Answer: quorum.Refused, Err: refusal}
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

// Unsent is the reply if a command was not sent.
func Unsent(err error) *Reply { return &Reply{Answer: quorum.Unsent, Err: err} }

// YesIf is Yes, or Unexpected.
func YesIf(yes bool, v *Value) Reply {
	if !yes {
		return Unexpected(v)
	}
	return Reply{Answer: quorum.Yes}
}

// Unexpected is the reply of a server that has sent what cannot be the answer to the command.
func Unexpected(v *Value) Reply {
	return Reply{Answer: quorum.Unknown, Err: fmt.Errorf("%w: %s", nodeerr.ErrProtocol, v)}
}
