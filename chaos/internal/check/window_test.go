package check_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/chaos/internal/check"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// TestWindow_ShowsNothingElse takes the smallest history of a violation that only an order of many holds shows.
func TestWindow_ShowsNothingElse(t *testing.T) {
	var s story
	for i := range int64(60) {
		x := string(rune('A' + i))
		s.got(x, 100*i, 100*i+10)
		s.proof(x, 100*i+50)
	}
	s.got("inner", 2020, 2030) // within the hold of the 21st
	s.fault("freeze", 2000, 2025)
	s.fault("hold", 9000, 9100)

	violations, _ := s.history().Check("a", rules)
	require.Len(t, violations, 1)
	assert.Equal(t, check.NoOrder, violations[0].Promise)
	assert.Equal(t, ""+
		"       0.000       10.000  U/0            acquire a (lock) by U for 3s valid for 2.9s\n"+
		"       0.000       25.000  -              fault freeze of nodes [1] and clients []\n"+
		"      20.000       30.000  inner/0        acquire a (lock) by inner for 3s valid for 2.9s\n"+
		"      50.000               U/0            proof a by U\n", check.Text(s.history().Window(violations[0])))
}

func TestWindow_LeavesOutValuesOfRegisters(t *testing.T) {
	var s story
	for i := range int64(40) {
		value := string(rune('A' + i))
		s.write(uint64(i+1), value, 100*i, 100*i+10)
		s.read(uint64(i+1), value, 100*i+20, 100*i+30)
	}
	s.read(20, "T", 3000, 3010)

	violations, _ := s.history().Check("a", rules)
	require.Len(t, violations, 1)
	window := s.history().Window(violations[0])
	require.Len(t, window, 3, "%s", check.Text(window)) // two writes, and a read of the first
	assert.Equal(t, "T", window[0].Value)
	assert.Greater(t, window[1].Value, "T")
	assert.Equal(t, history.Read, window[2].Kind)
	assert.Equal(t, "T", window[2].Value)
}
