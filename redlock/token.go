package redlock

import (
	"fmt"
	"log/slog"
)

// Token is the token of a lock. A program that knows it can release or extend the lock ([Locker.Attach]), so fmt and
// slog print "(token)", except in an unexported field. string(t) and encoding/json give the text.
type Token string

// Format prints "(token)", or "" for "".
func (t Token) Format(s fmt.State, _ rune) {
	if t != "" {
		_, _ = s.Write([]byte("(token)"))
	}
}

// LogValue returns "(token)", or "" for "".
func (t Token) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(t)) }
