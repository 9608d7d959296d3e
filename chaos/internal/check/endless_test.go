package check_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/chaos/internal/check"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

func TestEndless_KeysOfTheLibrary(t *testing.T) {
	left := func(node int, key, value string) *story {
		var s story
		s.add(history.Op{Kind: history.Set, Node: 1, Key: "k", Value: "1"}, 0, 10)
		s.add(history.Op{Kind: history.Set, Node: 2, Key: "k", Value: "1", Err: history.Taken}, 0, 10)
		s.add(history.Op{Kind: history.Left, Node: node, Key: key, Value: value, What: "string"}, 20, 20).Name = ""
		return &s
	}
	assert.Empty(t, left(1, "k", "1").history().Endless(), "of a stranger")
	for name, s := range map[string]*story{
		"another value": left(1, "k", "2"), "another key": left(1, "l", "1"), "another node": left(3, "k", "1"), "not set": left(2, "k", "1"),
	} {
		found := s.history().Endless()
		if assert.Len(t, found, 1, name) {
			assert.Equal(t, check.Endless, found[0].Promise)
		}
	}
}
