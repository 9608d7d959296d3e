package testredis

import (
	"strings"

	"github.com/quorumlock/quorumlock/internal/form"
)

// Proven returns a command in the form that it has once its connection has proven what it may do, for servers that a test plays itself.
func Proven(words []string) []string {
	if len(words) < 4 || words[0] != "EVAL" && words[0] != "EVALSHA" {
		return words
	}
	for name, script := range form.Scripts {
		of, proves := strings.CutPrefix(name, "first_")
		switch {
		case !proves || words[1] != script.Source && words[1] != script.Hash:
		case of == "acquire":
			return append([]string{"SET"}, words[3:]...)
		default:
			return append(form.Scripts[of].Run(nil, words[0] == "EVAL"), words[2:]...)
		}
	}
	return words
}
