// Package token has the form of the values that lock keys hold: tokens, and the fencing tokens behind them.
//
// A token is owner.random, or owner.random:metadata. The owner part is the same in all tokens of a Locker, and waiters
// address their messages to it. The random part makes the token unique. With fencing the key holds token|fence.
package token

import (
	"crypto/rand"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/quorumlock/quorumlock/internal/sealed"
)

const (
	// OwnerChars is the length of the owner part.
	OwnerChars = 8

	ownerAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" // the alphabet of rand.Text

	randomBytes = 21
	chars       = OwnerChars + 1 + randomBytes*4/3
)

// NewOwner draws the owner part of a Locker's tokens.
func NewOwner() string { return rand.Text()[:OwnerChars] }

// Self is an option of package redlock: the owner part of the tokens of a Locker. With it, a process goes on with the
// locks of a Locker that another process has left to it. It also gets the messages of waiting processes then.
type Self string

// LockerOption makes Self a redlock.Option.
func (Self) LockerOption(sealed.Type) {}

// Random draws a token of an owner.
func Random(owner string) string {
	random := make([]byte, randomBytes)
	_, _ = rand.Read(random) // never fails
	text := make([]byte, 0, chars)
	text = append(append(text, owner...), '.')
	return string(base64.RawURLEncoding.AppendEncode(text, random))
}

// WithMetadata returns the token with metadata behind it.
func WithMetadata(token, metadata string) string {
	if metadata == "" {
		return token
	}
	return token + ":" + metadata
}

// Owner returns the owner part of a token. It returns "" if another client made the token.
func Owner(token string) string {
	if len(token) < chars || token[OwnerChars] != '.' || strings.Trim(token[:OwnerChars], ownerAlphabet) != "" {
		return ""
	}
	return token[:OwnerChars]
}

// Metadata returns the metadata of a token. It returns "" if there is none.
func Metadata(token string) string {
	if Owner(token) == "" {
		return ""
	}
	_, metadata, _ := strings.Cut(token[chars:], ":")
	return metadata
}

// Join returns the value of the key of a lock with a token and a fencing token. A fence of 0 means that the lock was
// taken without fencing.
func Join(token string, fence uint64) string {
	if fence == 0 {
		return token
	}
	return token + "|" + strconv.FormatUint(fence, 10)
}

// Split splits the value of a key into the token and the fencing token behind it. The fencing token is 0 if the lock
// was taken without fencing. If another client made the token, Split looks for a fencing token only if fencing is set.
func Split(value string, fencing bool) (token string, fence uint64) {
	i := strings.LastIndexByte(value, '|')
	if i < 0 || !fencing && Owner(value[:i]) == "" {
		return value, 0
	}
	fence, err := strconv.ParseUint(value[i+1:], 10, 53)
	if err != nil || fence == 0 {
		return value, 0
	}
	return value[:i], fence
}
