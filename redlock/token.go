package redlock

import (
	"fmt"
	"log/slog"
)

// Token is the token of a lock: random text, with the [Metadata] of its holder, or the text of a [TokenSource]. A
// program that knows it can release or extend the lock ([Locker.Attach]). So packages fmt and slog print "(token)", but
// not in an unexported field. string(t) is the text, for a cookie, a job or the client of a database. Package
// encoding/json writes the text.
type Token string

// Format prints "(token)" for every verb, or "" if there is no token.
func (t Token) Format(s fmt.State, _ rune) {
	if t != "" {
		_, _ = s.Write([]byte("(token)"))
	}
}

// LogValue returns "(token)", or "" if there is no token.
func (t Token) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(t)) }
