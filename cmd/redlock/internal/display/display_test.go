package display_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
)

func TestText_LeavesNoControlCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"plain text":            "plain text",
		"söngur 日本 e\u0301 😀":   "söngur 日本 e\u0301 😀",
		"\x1b[2J\x1b]0;title\a": `\x1b[2J\x1b]0;title\a`,
		"a\nb\tc\r":             `a\nb\tc\r`,
		"\x9b31m\xff":           `\x9b31m\xff`,
		"\u009b31m":             `\u009b31m`,
		"\u202egnp.exe":         `\u202egnp.exe`,
		"\x00":                  `\x00`,
		`back\slash "quoted"`:   `back\slash "quoted"`,
		"\xff\xfe":              `\xff\xfe`,
		"\u200b\ufeff\u2028":    `\u200b\ufeff\u2028`,
		"\ufffd":                "\ufffd",
	} {
		assert.Equal(t, want, display.Text(text))
	}
}

func TestError_LeavesNoControlCharactersOfAServer(t *testing.T) {
	assert.Equal(t, "two nodes\n\ta: \\x1b[2J\n\tb: no", display.Error(errors.New("redlock: two nodes\n\ta: pool: \x1b[2J\n\tb: no")))
}

func TestClipped_ShowsTheFirstCharacters(t *testing.T) {
	assert.Equal(t, "éé", display.Clipped("éé", 2))
	assert.Equal(t, "éé…", display.Clipped(strings.Repeat("é", 1<<20), 2))
	assert.Equal(t, `\x1bé…`, display.Clipped("\x1béé", 2))
	assert.Equal(t, `\xff`, display.Clipped("\xff", 1))
}
