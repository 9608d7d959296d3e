package client

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Stamp is since when a server has been in use as a node, for programs with a restart guard. See [wire.Guard].
type Stamp struct {
	Age  time.Duration // of the server's own stamp
	Void string        // why programs that connect set another stamp; "" if they do not
}

// Left returns for how long programs with a guard do not use the server for locks, by a stamp that has become older since it was read.
// It is 0 or below if they do.
func (s Stamp) Left(guard, since time.Duration) time.Duration {
	whole := wire.VotesAfter(guard)
	if s.Void != "" {
		return whole
	}
	return whole - s.Age - since
}

// Why programs set another stamp.
const (
	noStamp    = "it has no stamp: it has not been used with a restart guard yet, or it has lost its data"
	otherStamp = "it has the stamp of another server: it was restarted, promoted or replaced"
	noAge      = "its stamp has a TTL that no program gives to one"
	otherData  = "it has data of another program in the place of its stamp"
)

// AskStamp returns the commands that read the stamp of the node of a server. [ReadStamp] takes their replies.
func AskStamp(s *node.Server) [][]string {
	key := s.Tag + wire.StampKey(s.StampName())
	return [][]string{{"GETRANGE", key, "0", strconv.Itoa(wire.MaxToken)}, {"PTTL", key}} // a byte more than a value that is of interest
}

// ReadStamp returns the stamp of a server. If that may not be read, the error is the refusal, a [*nodeerr.ServerError].
func ReadStamp(server wire.Identity, replies []any) (Stamp, error) {
	for _, reply := range replies {
		switch refusal, is := reply.(*nodeerr.ServerError); {
		case is && refusal.Code == "WRONGTYPE":
			return Stamp{Void: otherData}, nil
		case is:
			return Stamp{}, refusal
		}
	}
	value, isText := replies[0].(string)
	left, isNumber := replies[1].(int64)
	switch {
	case !isText || !isNumber:
		return Stamp{}, fmt.Errorf("%w: the replies to GETRANGE and PTTL", nodeerr.ErrProtocol)
	case value == "":
		return Stamp{Void: noStamp}, nil
	case !server.Holds(value):
		return Stamp{Void: otherStamp}, nil
	}
	age, is := wire.StampAge(wire.TTL(left))
	if !is {
		return Stamp{Void: noAge}, nil
	}
	return Stamp{Age: age}, nil
}

// Stamped is since when a server has been in use as a node, if that is asked.
type Stamped struct {
	Stamp    Stamp
	At       time.Time // when it was so; zero if it is not known
	StampErr error     // why it is not
	Nameless bool      // the server says what it is, and not which one: nobody can stamp it
}

// errUnnamed is why a stamp says nothing: whether it is that of the server is not known.
var errUnnamed = errors.New("INFO is refused")

// ReadStamped reads the stamp, from replies to INFO and to [AskStamp]. An empty info was refused.
func ReadStamped(server, replication string, replies []any) (s Stamped) {
	who := node.Identity(server, replication)
	switch {
	case server == "" || replication == "":
		s.StampErr = errUnnamed
		return s
	case who.Process == "" || who.History == "":
		s.Nameless = true
		return s
	}
	if s.Stamp, s.StampErr = ReadStamp(who, replies); s.StampErr == nil {
		s.At = time.Now()
	}
	return s
}
