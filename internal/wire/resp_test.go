package wire_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// pieces reads data in pieces of the given size.
type pieces struct {
	data []byte
	size int
}

func (p *pieces) Read(to []byte) (n int, err error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n = copy(to, p.data[:min(p.size, len(p.data))])
	p.data = p.data[n:]
	return n, nil
}

// encoded returns a value as a server sends it.
func encoded(v wire.Value) string {
	text := ""
	switch v.Kind {
	case '_':
		return "_\r\n"
	case ':':
		return fmt.Sprintf(":%d\r\n", v.Num)
	case '$', '!':
		return fmt.Sprintf("%c%d\r\n%s\r\n", v.Kind, len(v.Text), v.Text)
	case '=':
		return fmt.Sprintf("=%d\r\ntxt:%s\r\n", len("txt:")+len(v.Text), v.Text)
	case '*', '~', '>':
		text = fmt.Sprintf("%c%d\r\n", v.Kind, len(v.Items))
	case '%':
		text = fmt.Sprintf("%%%d\r\n", len(v.Items)/2)
	default:
		return string(v.Kind) + string(v.Text) + "\r\n"
	}
	for _, item := range v.Items {
		text += encoded(item)
	}
	return text
}

// readAll reads values until the first error. It returns them and the error.
func readAll(in io.Reader) (values []wire.Value, err error) {
	r := wire.NewReader(in, "")
	for {
		v, err := r.Read()
		if err != nil {
			return values, err
		}
		values = append(values, copied(v))
	}
}

// copied is a value that lasts beyond the next Read.
func copied(v wire.Value) wire.Value {
	c := wire.Value{Kind: v.Kind, Num: v.Num, Text: bytes.Clone(v.Text)}
	for _, item := range v.Items {
		c.Items = append(c.Items, copied(item))
	}
	return c
}

// skipAll reads values until the first error, and returns how many bytes were allocated for them.
func skipAll(in io.Reader) (allocated uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := wire.NewReader(in, "")
	for err := error(nil); err == nil; {
		_, err = r.Read()
	}
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// push begins a push of three values with two texts.
func push(kind, channel string) string { return ">3\r\n" + bulk(kind) + bulk(channel) }

// Anybody may publish anything: what is too long for a message is not even read into memory.
func TestReader_DropsALongTextInAPushAndReadsOn(t *testing.T) {
	for size, want := range map[int]byte{0: '$', wire.MaxPushed: '$', wire.MaxPushed + 1: '_', 1 << 20: '_', 30 << 20: '_'} {
		sent := push("message", "channel") + bulk(strings.Repeat("\n", size)) + bulk(strings.Repeat("\n", min(size, 1<<19)))
		require.Less(t, skipAll(strings.NewReader(sent)), uint64(2<<20))
		values, err := readAll(strings.NewReader(sent))
		require.Equal(t, io.EOF, err)
		require.Len(t, values, 2)
		require.Equal(t, want, values[0].Items[2].Kind, size)
		require.Len(t, values[1].Text, min(size, 1<<19), "a reply may be longer")
	}
}

// No size is believed before it is checked.
func TestReader_WhatIsAgainstTheProtocolIsAnErrorAtOnce(t *testing.T) {
	for _, sent := range []string{
		"*99999999999\r\n", "*16385\r\n", "$99999999999999\r\n", "$1048577\r\n", "$99999999999999999999999\r\n", "$-2\r\n",
		"%99999999999\r\n", "%4611686018427387904\r\n", "%-9223372036854775808\r\n", "~99999999999\r\n", "=99999999999999\r\n",
		"!99999999999999\r\n", ">99999999999\r\n", push("message", "c") + "$99999999999999\r\n",
		":18446744073709551617000\r\n", ":+1\r\n", ":x\r\n", ":\r\n",
		"$\r\n", "$x\r\n", "$1\r\nxyz\r\n", "*1\r\n?\r\n", "\r\n", "+OK\n", "\x00\r\n",
		strings.Repeat("*1\r\n", 100), strings.Repeat("%1\r\n", 100), strings.Repeat(">1\r\n", 100), "*2\r\n>1\r\n:1\r\n:1\r\n",
		":" + strings.Repeat("1", 1<<20),
		"*16384\r\n" + strings.Repeat(bulk(strings.Repeat("x", 1000)), 1100),
	} {
		require.Less(t, skipAll(strings.NewReader(sent)), uint64(4*wire.MaxReply+32*len(sent)))
		values, err := readAll(strings.NewReader(sent))
		require.ErrorIs(t, err, nodeerr.ErrProtocol, "%.40q", sent)
		require.Empty(t, values)
	}
}

// Whatever a server sends: it is the same in pieces of any size, what was read is what was sent, and memory is bounded.
func FuzzReader(f *testing.F) {
	for _, sent := range []string{
		"+OK\r\n", "-ERR x\r\n", ":-5\r\n:007\r\n", "$5\r\nhello\r\n", "$-1\r\n*-1\r\n_\r\n", "$0\r\n\r\n*0\r\n", "=7\r\ntxt:abc\r\n", "=2\r\nab\r\n",
		"!5\r\nERR x\r\n", ",1\r\n(\r\n", ",1.5\r\n#t\r\n(123\r\n", "*2\r\n$5\r\ntoken\r\n:60000\r\n", "%1\r\n+proto\r\n:3\r\n", "~2\r\n:1\r\n*1\r\n:2\r\n",
		"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "$1048577\r\nx", "*16385\r\n", ">99999999999\r\n", "$5\r\nhelloxx",
		">2\r\n" + bulk("invalidate") + "*2\r\n" + bulk("key") + bulk("other") + "+OK\r\n", ">2\r\n" + bulk("invalidate") + "_\r\n", push("subscribe", "channel") + ":1\r\n",
		push("message", "channel") + bulk("waits\nname\nABCDEFGH") + ":1\r\n", push("message", "c") + bulk(strings.Repeat("\n", wire.MaxPushed+1)) + ":1\r\n",
	} {
		f.Add([]byte(sent), uint16(1))
		f.Add([]byte(sent), uint16(5))
	}
	f.Fuzz(func(t *testing.T, sent []byte, size uint16) {
		sent = sent[:min(len(sent), 64<<10)]
		allocation := skipAll(bytes.NewReader(sent))
		require.Less(t, allocation, uint64(4*wire.MaxReply+32*len(sent)))

		values, err := readAll(bytes.NewReader(sent))
		require.Error(t, err)
		require.Less(t, len(err.Error()), 500)
		inPieces, errInPieces := readAll(&pieces{sent, 1 + int(size)})
		require.Equal(t, values, inPieces)
		require.Equal(t, err.Error(), errInPieces.Error())

		for _, v := range values {
			again, err := readAll(strings.NewReader(encoded(v)))
			require.Equal(t, io.EOF, err)
			require.Equal(t, []wire.Value{v}, again)
		}
	})
}
