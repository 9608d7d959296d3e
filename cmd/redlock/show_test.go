package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestAReasonIsCutDownToWhatIsNotInItsLineAlready(t *testing.T) {
	refused := &net.OpError{
		Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1},
		Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
	}
	for want, err := range map[string]error{
		"held by another token":                pool.ErrHeld,
		"not connected: connection refused":    &pool.ConnectError{Err: refused},
		"not connected: cut off from the demo": &pool.ConnectError{Err: errCutOff},
		"not connected: NOAUTH Authentication required. (the server asks for a password)": &pool.ConnectError{
			Err: &pool.ServerError{Code: "NOAUTH", Message: "NOAUTH Authentication required."}},
	} {
		assert.Equal(t, want, reason(err))
	}
}

func TestTimesHaveFewDigits(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0.00 ms":  0,
		"0.35 ms":  351 * time.Microsecond,
		"99.99 ms": 99990 * time.Microsecond,
		"492 ms":   492300 * time.Microsecond,
		"9.90 s":   9898 * time.Millisecond,
	} {
		assert.Equal(t, want, duration(d))
	}
}

func TestALongAddressAndALongReasonDoNotBreakTheTable(t *testing.T) {
	var out bytes.Buffer
	s := newShow(&out, true)
	s.addr = maxAddr
	s.votes(&round{votes: []*redlock.Vote{{
		Addr:   "a-host-with-a-rather-long-name.example.com:6379",
		Answer: pool.Refused, Took: 1234 * time.Microsecond,
		Err: errors.New("a reason that somebody took great care to give in full"),
	}}})
	fits(t, out.String())
	assert.Contains(t, out.String(), "a-host-with-a-rather-long-name.…  refused    1.23 ms  a reason that")
}

func TestColoursAreForYesAndNoAndOnlyWhereWanted(t *testing.T) {
	seen := &round{
		votes:   []*redlock.Vote{{Answer: pool.Yes}, {Answer: pool.No, Err: pool.ErrHeld}, nil},
		verdict: &redlock.Verdict{Err: fmt.Errorf("why: %w", redlock.ErrTaken)},
	}
	var out bytes.Buffer
	s := newShow(&out, false)
	s.good.EnableColor()
	s.bad.EnableColor()
	s.acquired("A", seen)
	assert.Contains(t, out.String(), "\x1b[32m●\x1b[0m\x1b[31m○\x1b[0m")

	out.Reset()
	newShow(&out, true).acquired("A", seen)
	assert.Equal(t, "   ●○·  A is refused after 0.00 ms: why: lock is taken\n", out.String())
}
