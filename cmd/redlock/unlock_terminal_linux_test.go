package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
)

func TestUnlock_AsksOnTheTerminal(t *testing.T) {
	on, flags := real5(t)
	ms := eternity.Milliseconds()
	set := func() { do(t, on[:3], "SET", "name", "tok\x1b[2Jen", "PX", ms) }
	set()
	for answer, code := range map[string]int{"\n": exitTaken, "n\n": exitTaken, "yup\n": exitTaken, "\x04": exitTaken, "\x03": exitSignal + 2} {
		c := toolOnTerminal(t, with(flags, "unlock", "name", "--force")...)
		c.await("Remove it? [y/N] ", 1)
		require.Contains(t, c.all(), `tok\x1b[2Jen`)
		require.Contains(t, c.all(), on[4].Addr())
		require.Contains(t, strings.Join(strings.Fields(c.all()), " "), survey.Overlap)
		c.press(answer)
		require.Equal(t, code, c.code(), "%q", answer)
		c.await("Nothing was removed.", 1)
		require.NotContains(t, c.all(), "\x1b[2J")
		require.Equal(t, "tok\x1b[2Jen", values(t, on, "name")[0])
	}
	for _, answer := range []string{"y\n", "YES\n"} {
		set()
		c := toolOnTerminal(t, with(flags, "unlock", "name", "--force")...)
		c.await("Remove it? [y/N] ", 1)
		c.press(answer)
		require.Zero(t, c.code())
		c.await("Removed:", 1)
		require.Equal(t, make([]string, 5), values(t, on, "name"))
	}
}

func TestUnlock_DoesNotRemoveWhatItHasNotShown(t *testing.T) {
	on, flags := real5(t)
	do(t, on, "SET", "name", "first", "PX", eternity.Milliseconds())
	c := toolOnTerminal(t, with(flags, "unlock", "name", "--force")...)
	c.await("Remove it? [y/N] ", 1)
	do(t, on, "SET", "name", "second", "PX", eternity.Milliseconds())
	c.press("y\n")
	require.Equal(t, exitTaken, c.code())
	c.await("another has taken the lock meanwhile on 5 nodes", 1)
	require.Equal(t, "second", values(t, on, "name")[0])

	do(t, on, "SET", "name", "first", "PX", eternity.Milliseconds())
	c = toolOnTerminal(t, with(flags, "unlock", "name", "--force")...)
	c.await("Remove it? [y/N] ", 1)
	do(t, on[:2], "SET", "name", "second", "PX", eternity.Milliseconds())
	do(t, on[2:3], "DEL", "name")
	c.press("y\n")
	require.Zero(t, c.code())
	c.await("has taken it meanwhile: left alone", 2)
	c.await("it has ended meanwhile", 1)
	require.Equal(t, []string{"second", "second", "", "", ""}, values(t, on, "name"))
}

func TestWatch_DrawsOverWhatItHasDrawn(t *testing.T) {
	on, flags := real5(t)
	for _, command := range [][]string{{"inspect", "name"}, {"list"}} {
		do(t, on, "SET", "name", "first", "PX", eternity.Milliseconds())
		c := toolOnTerminal(t, with(flags, append(command, "--watch", "--interval=100ms")...)...)
		c.await("\x1b[H", 3)
		c.await("first", 3)
		do(t, on, "SET", "name", "second", "PX", eternity.Milliseconds())
		c.await("second", 2)
		c.press("\x03")
		require.Equal(t, exitSignal+2, c.code())
		require.NotContains(t, c.all(), "error")
	}
}

func TestWatch_FitsOnTheTerminal(t *testing.T) {
	on, flags := real5(t)
	for i := range 30 {
		do(t, on, "SET", fmt.Sprintf("name-%02d-%s", i, strings.Repeat("日本", 30)), "token", "PX", eternity.Milliseconds())
	}
	c := toolOnTerminal(t, with(flags, "list", "--watch")...)
	c.await("\x1b[J", 1)
	c.press("\x03")
	require.Equal(t, exitSignal+2, c.code())
	frame, _, _ := strings.Cut(c.all(), "\x1b[J")
	require.Contains(t, frame, "… and ")
	rows := strings.Split(frame, "\x1b[K\r\n")
	require.LessOrEqual(t, len(rows), 12)
	for _, row := range rows {
		require.LessOrEqual(t, textWidth(colors.ReplaceAllString(row, "")), 70, "%q", row)
	}
}
