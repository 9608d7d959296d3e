package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/fatih/color"
	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

func TestReason_OmitsTheAddressThatIsInTheLineAlready(t *testing.T) {
	refused := &net.OpError{
		Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1},
		Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
	}
	for want, err := range map[string]error{
		"another token holds the key": nodeerr.ErrHeld,
		"connection refused":          &nodeerr.ConnectError{Err: refused},
		"unreachable":                 &nodeerr.ConnectError{Err: errUnreachable},
		"not connected: NOAUTH Authentication required. (the server asks for a password)": &nodeerr.ConnectError{
			Err: &nodeerr.ServerError{Code: "NOAUTH", Message: "NOAUTH Authentication required.", Hint: "the server asks for a password"}},
	} {
		assert.Equal(t, want, reason(err))
	}
}

func TestShow_ClipsLongLines(t *testing.T) {
	var out bytes.Buffer
	s := &show{w: &out}
	s.votes(&round{votes: []*protocol.Vote{{
		Addr:   "a-host-with-a-rather-long-name.example.com:6379",
		Answer: protocol.AnswerRefused, Took: 1234 * time.Microsecond,
		Err: errors.New("a reason that somebody took great care to give in full"),
	}}})
	fits(t, out.String())
	assert.Contains(t, out.String(), "a-host-with-a-rather-long-name.example.com:6379  refused  1.23 ms  a reason")
}

func TestShow_MarksYesNoAndNoAnswerInColoursUnlessPlain(t *testing.T) {
	seen := &round{votes: []*protocol.Vote{
		{Answer: protocol.AnswerYes}, {Answer: protocol.AnswerNo, Err: nodeerr.ErrHeld}, {Answer: protocol.AnswerUnsent, Err: errUnreachable}, nil,
	}}
	var out bytes.Buffer
	s := &show{w: &out}
	color.NoColor = false
	s.outcome(seen, bad, "A is %s", "refused")
	color.NoColor = true
	assert.Contains(t, out.String(), "\x1b[32m●\x1b[0m\x1b[31m○\x1b[0m\x1b[33m·\x1b[0m")

	out.Reset()
	s.outcome(seen, bad, "A is %s", "refused")
	assert.Equal(t, "   ●○··  A is refused\n", out.String())
}

func TestTextWidth_CountsColumns(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "abc": 3, "söngur": 6, "日本": 4, "e\u0301": 1, "한글": 4, "カナ": 4, "ｶﾅ": 2, "Ａ": 2, "😀": 2, "…": 1, "●": 1,
	} {
		assert.Equal(t, want, textWidth(text), text)
	}
}

func TestClip_NeverExceedsTheColumns(t *testing.T) {
	assert.Equal(t, "abc", clip("abc", 3))
	assert.Equal(t, "ab…", clip("abcd", 3))
	assert.Equal(t, "日…", clip("日本語", 4))
	assert.Equal(t, "日本", clip("日本", 4))
	assert.Equal(t, "…", clip("日本", 1))
}

func TestColumns_AlignWideText(t *testing.T) {
	assert.Equal(t, []string{"日本   1", "abc   20", "       3"}, columns([][]string{{"日本", "1"}, {"abc", "20"}, {"", "3"}}, 0))
}

func TestTableLines_LeaveOutEmptyColumns(t *testing.T) {
	titles := []column{{"NAME", false}, {"FENCE", true}, {"TTL", true}}
	assert.Equal(t, []string{"NAME  TTL", "a      1s", "b     10s"}, tableLines(titles, [][]string{{"a", "", "1s"}, {"b", "", "10s"}}))
	assert.Equal(t, []string{""}, tableLines(titles, nil))
}

func TestWrap_BreaksLinesAtSpaces(t *testing.T) {
	assert.Equal(t, []string{"one two", "three", "四 五"}, wrap("one two three 四 五", 7))
	assert.Equal(t, []string{"a-very-long-word", "b"}, wrap("a-very-long-word b", 5))
}
