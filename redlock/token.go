package redlock

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// A token is owner.random, or owner.random:metadata. The owner part is the same in all tokens of a Locker: waiters address
// their messages to it. The random part makes the token unique.
const (
	ownerBytes  = 6
	randomBytes = 21
	ownerChars  = ownerBytes * 4 / 3
	tokenChars  = ownerChars + 1 + randomBytes*4/3
)

// newOwner draws the owner part of a Locker's tokens.
func newOwner() string {
	random := make([]byte, ownerBytes)
	_, _ = rand.Read(random) // never fails
	return base64.RawURLEncoding.EncodeToString(random)
}

// newToken makes a token that no lock has had.
func (l *Locker) newToken(metadata string) (token string, err error) {
	token, err = l.token()
	if err == nil && token == "" {
		err = errors.New("an empty token")
	}
	if err != nil {
		return "", fmt.Errorf("redlock: token source: %w", err)
	}
	if metadata != "" {
		token += ":" + metadata
	}
	return token, nil
}

func randomToken(owner string) string {
	random := make([]byte, randomBytes)
	_, _ = rand.Read(random) // never fails
	text := make([]byte, 0, tokenChars)
	text = append(append(text, owner...), '.')
	return string(base64.RawURLEncoding.AppendEncode(text, random))
}

// ownerOf returns the owner part of a token; "" if another client made it.
func ownerOf(token string) string {
	if len(token) < tokenChars || token[ownerChars] != '.' {
		return ""
	}
	return token[:ownerChars]
}

// metadataOf returns the metadata of a token; "" if there is none.
func metadataOf(token string) string {
	if ownerOf(token) == "" {
		return ""
	}
	_, metadata, _ := strings.Cut(token[tokenChars:], ":")
	return metadata
}
