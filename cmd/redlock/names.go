package main

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
)

// completeNames is what completion scripts call the tool with, and behind it the words of the line that is typed, the last one
// unfinished. They are as they were typed: nobody has expanded a variable or removed a quote.
const completeNames = "__names"

// plainText is what means the same typed and in a name.
var plainText = regexp.MustCompile(`^[A-Za-z0-9_.,:/@%+=-]+$`)

// nameQuery returns the command line of list that prints names for a line; nil if no name is due at its end. It reaches the nodes by
// the flags of the line, and gives up soon.
func nameQuery(app *kong.Application, words []string) []string {
	if len(words) == 0 {
		return nil
	}
	words, typed := words[:len(words)-1], words[len(words)-1]
	var command *kong.Node
	query := []string{"list", "--words", "--timeout=300ms", "--node-limit=1s", "--limit=1000"}
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case command == nil:
			at := slices.IndexFunc(app.Children, func(c *kong.Node) bool { return c.Name == word })
			if at < 0 || !takesName(app.Children[at]) {
				return nil
			}
			command = app.Children[at]
		case !strings.HasPrefix(word, "-") || word == "--":
			return nil // the name stands there already
		default:
			name, value, hasValue := strings.Cut(word, "=")
			at := slices.IndexFunc(command.Flags, func(f *kong.Flag) bool { return slices.Contains(flagWords(f), name) })
			if at < 0 || command.Flags[at].IsBool() {
				continue
			}
			if !hasValue {
				if i++; i == len(words) {
					return nil // the value is due
				}
				value = words[i]
			}
			if f := command.Flags[at]; f.Group != nil && f.Group.Key == "Nodes" && f.Name != "timeout" {
				query = append(query, "--"+f.Name+"="+value)
			}
		}
	}
	if command == nil {
		return nil
	}
	if plainText.MatchString(typed) {
		query = append(query, "--", survey.Literally(typed)+"*")
	}
	return query
}

// isWord reports whether a name can be a word of a command line, and be shown on a terminal. Others are not offered. fish does not
// quote a ~ at the beginning.
func isWord(name string) bool {
	return utf8.ValidString(name) && !strings.HasPrefix(name, "-") && !strings.HasPrefix(name, "~") &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}
