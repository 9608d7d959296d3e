package pool

import (
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Answer is what a node made of a command.
type Answer uint8

// The answers.
const (
	Yes     Answer = iota + 1 // done
	No                        // not done: Err is ErrHeld or ErrAbsent
	Maybe                     // done or not, nobody knows: the reply was lost or makes no sense
	Refused                   // not done: Err is the server's *ServerError
	Unsent                    // not done: the command never went out
	Planted                   // done for a key that was not there: Err is ErrPlanted
)

// String returns the answer in lower case.
func (a Answer) String() string {
	switch a {
	case Yes:
		return "yes"
	case No:
		return "no"
	case Maybe:
		return "maybe"
	case Refused:
		return "refused"
	case Unsent:
		return "unsent"
	case Planted:
		return "planted"
	}
	return fmt.Sprintf("Answer(%d)", uint8(a))
}

// NoTTL is the TTL of a key that never expires.
const NoTTL time.Duration = -1

// Reply is the answer to one command on one node.
type Reply struct {
	Answer Answer
	// Watched says of a [Look] that was answered with Yes or No that the [Listener] is told of
	// the next change to the key, or that the node is deaf.
	Watched bool
	// Server identifies the server process that answered (its run_id), "" where
	// unknown: the command was not answered, or the server does not tell.
	Server string
	// Err is the reason of any answer but Yes.
	Err error
	// Value is what the key holds and TTL how long still, where a [Look] was answered with
	// Yes. TTL is in whole milliseconds: 0 in the last one, [NoTTL] for ever.
	Value string
	TTL   time.Duration
	// Number is what an [AcquireFenced] that was answered with Yes was granted: from 1 to below 2^53.
	Number uint64
}

// Receiver is told how the commands end that it was named for. Each command ends
// once. Reply is called on a goroutine of the node, or within [Node.Send]; it must
// not block.
type Receiver interface {
	Reply(node int, cmd *Command, reply Reply)
}

// classify turns what the connection read for a command into its reply.
func classify(k kind, value any, err error) Reply {
	if err != nil {
		err = asError(err)
		if refusal := (*ServerError)(nil); errors.As(err, &refusal) {
			return Reply{Answer: Refused, Err: err}
		}
		return Reply{Answer: Maybe, Err: err}
	}
	switch k {
	case acquire:
		switch value {
		case "OK":
			return Reply{Answer: Yes}
		case nil:
			return Reply{Answer: No, Err: ErrHeld}
		}
	case grant:
		switch number, ok := value.(int64); {
		case value == nil:
			return Reply{Answer: No, Err: ErrHeld}
		case ok && number > 0 && number < maxNumber:
			return Reply{Answer: Yes, Number: uint64(number)}
		}
	case raise, release, extend, restore, force, heal:
		switch {
		case value == int64(1):
			return Reply{Answer: Yes}
		case value == int64(0):
			return Reply{Answer: No, Err: ErrAbsent}
		case value == int64(-1) && k != force:
			return Reply{Answer: No, Err: ErrHeld}
		case value == int64(2) && k == extend:
			return Reply{Answer: Planted, Err: ErrPlanted}
		}
	case look:
		if value == nil {
			return Reply{Answer: No, Err: ErrAbsent}
		}
		if held, ttl, ok := lookedAt(value); ok {
			return Reply{Answer: Yes, Value: held, TTL: ttl}
		}
	case publish:
		if _, ok := value.(int64); ok { // how many have got it
			return Reply{Answer: Yes}
		}
	case ping:
		if value == "PONG" {
			return Reply{Answer: Yes}
		}
	case caching, tracking:
		if value == "OK" {
			return Reply{Answer: Yes}
		}
	}
	return Reply{Answer: Maybe, Err: fmt.Errorf("%w: %s", ErrProtocol, show(value))}
}

// lookedAt takes the reply of look.lua apart.
func lookedAt(value any) (held string, ttl time.Duration, ok bool) {
	pair, _ := value.([]any)
	if len(pair) != 2 {
		return "", 0, false
	}
	text, isText := pair[0].([]byte)
	left, isInt := pair[1].(int64)
	if !isText || !isInt || left < -1 {
		return "", 0, false
	}
	if left == -1 {
		return string(text), NoTTL, true
	}
	return string(text), time.Duration(left) * time.Millisecond, true
}

// code returns the code of a server's refusal; "": it is another error.
func code(err error) string {
	if refusal := (*ServerError)(nil); errors.As(asError(err), &refusal) {
		return refusal.Code
	}
	return ""
}

// show renders an unexpected reply within the bounds of an error message.
func show(value any) string {
	if b, ok := value.([]byte); ok {
		value = string(b)
	}
	text := fmt.Sprintf("%#v", value)
	return text[:min(len(text), 80)]
}

// isFatal says whether an error of Receive ended the connection, rather than being
// the server's error reply.
func isFatal(err error) bool {
	if err == nil {
		return false
	}
	reply := redis.Error("")
	return !errors.As(err, &reply)
}
