package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The most bytes of the texts in the metadata of run, so that all of it has at most maxMetadata.
const (
	maxHost    = 100
	maxProgram = 80
)

// holder says for others who runs what since when. It leaves out the arguments, because these may hold secrets.
func (c *runCmd) holder(now time.Time) string {
	host, _ := os.Hostname() // "" is fine
	text := fmt.Sprintf("%s pid %d: %s, started %s", plainly(cmp.Or(host, "unknown host"), maxHost), os.Getpid(),
		plainly(filepath.Base(c.Command[0]), maxProgram), now.UTC().Format(time.RFC3339))
	if c.Slots != nil {
		text += fmt.Sprintf(", one of %d slots", *c.Slots)
	}
	return text
}

// plainly returns the first bytes of a text, with others in the place of the characters that metadata must not have.
func plainly(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '|':
			return '_'
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, text)
	for len(text) > most {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}
