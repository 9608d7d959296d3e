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

// MaxToken is how many bytes the value of a lock's key has at most, including the number behind the token. A longer
// value is data of another program ([nodeerr.ErrForeign]): our longest value has about 320 bytes, and other clients use
// less. The scripts know the limit too.
const MaxToken = 1024

// Reply is the answer to one command on one node.
type Reply struct {
	Answer quorum.Answer
	// Err is why the Answer is not Yes.
	Err error
	// Command is the name of the last command that the server was sent for it: SET, EVALSHA, EVAL or another command of
	// Redis. It is empty if none was sent.
	Command string
	// Server identifies the server process that answered (its run_id). It is empty if the command was not answered or the
	// server does not report it.
	Server string
	// Value is the value of the key, MaxToken bytes at most, and TTL is how much longer the key lasts. They are set if an
	// Observe or a stamp was answered with Yes. TTL is also set for data of another program that has a TTL. It is in whole
	// milliseconds: 0 in the last one, and NoTTL for ever.
	Value string
	TTL   time.Duration
	// Tracked reports that the next change to the key is reported to the Listeners. It is only set for a command that was
	// to be tracked and that the server has carried out.
	Tracked bool
	// Fence is the number that a fenced acquire was granted: from 1 to below 2^53. 0 means none.
	Fence uint64
	// Slot is the slot that an acquire was granted, or that a token has. The zero value means none.
	Slot Slot
	// WriterWaits reports that a process waits for a key that several share, and lets nobody else in.
	WriterWaits bool
	// Over reports that more share a key than there are slots for the caller.
	Over bool
	// Same reports that the key is as it was, though the command could change it.
	Same bool
	// Each is the answers for each key of a command about several keys, or for each holder that shares a key. It is set if
	// the server has carried the command out.
	Each []Reply
	// Late marks an answer that came after a Reply that there was none in time (Unknown), see [Command.WantsLate].
	Late bool
}

// Number returns the number on which votes have to agree: Fence, or the number of Slot. 0 means that there is none.
func (r *Reply) Number() uint64 { return r.Fence + uint64(r.Slot) }

// Slot is one of the slots of a name. The zero value means none.
type Slot uint16

// SlotAt returns the slot with the index i, which counts from 0.
func SlotAt(i int) Slot { return Slot(1 + i) } //nolint:gosec // form.MaxSlots is far below

// At returns the index of the slot. ok is false if there is none.
func (s Slot) At() (i int, ok bool) { return int(s) - 1, s > 0 }

// Receiver is the receiver of replies to commands: one for each command, and a late one for a command that WantsLate.
// Reply is called on a goroutine of the node, never within Send. It must not block, and must not keep the reply.
type Receiver interface {
	Reply(tag Tag, reply *Reply)
}

// Tag is how the sender of a command recognises the reply. Package wire does not look at it.
type Tag struct {
	Serial uint32
	Sight  Sight // for an observation
	What   uint8
	Node   uint16
}

// Sight is the kind of lock that an observation is for, and how many slots there are. Pass means that waiting
// processes with limit 0 do not count. It decides which keys are in the way.
type Sight struct {
	Kind  uint8
	Pass  bool
	Slots uint16
}

// Reply makes the reply to the command from the value with which a server has answered it.
func (c *Command) Reply(v *Value) Reply {
	refusal := v.Refusal()
	switch {
	case refusal == nil:
		return c.Parse(v)
	case c.needsToken() && errors.Is(refusal, nodeerr.ErrForeign):
		// The scripts report such data only under the key, and under the companion keys for its sharers.
		return Reply{Answer: quorum.No, Err: refusal}
	}
	return Reply{Answer: quorum.Refused, Err: refusal}
}

// TTL returns the TTL that the reply to a PTTL means, which is NoTTL for -1.
func TTL(ms int64) time.Duration {
	if ms < 0 {
		return NoTTL
	}
	return time.Duration(min(ms, maxTTL.Milliseconds())) * time.Millisecond
}

// maxTTL is the longest TTL that is reported. A server may name thousands of years, which a time.Duration cannot hold.
const maxTTL = 100 * 365 * 24 * time.Hour

// Unsent returns the reply to a command that was not sent. err is the reason.
func Unsent(err error) *Reply { return &Reply{Answer: quorum.Unsent, Err: err} }

// YesIf returns Yes if yes is true, and Unexpected otherwise.
func YesIf(yes bool, v *Value) Reply {
	if !yes {
		return Unexpected(v)
	}
	return Reply{Answer: quorum.Yes}
}

// Unexpected returns the reply of a server that has sent a value which cannot be the answer to the command.
func Unexpected(v *Value) Reply {
	return Reply{Answer: quorum.Unknown, Err: fmt.Errorf("%w: %s", nodeerr.ErrProtocol, v)}
}
