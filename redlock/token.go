package redlock

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// A token is owner.random, or owner.random:metadata. The owner part is the Locker's, the
// same in all of its tokens: it tells those who wait whom to tell so. What excludes is the random part.
const (
	ownerBytes  = 6
	randomBytes = 21
	ownerChars  = ownerBytes * 4 / 3
	tokenChars  = ownerChars + 1 + randomBytes*4/3
)

// newOwner draws the owner part of a Locker's tokens.
func newOwner() (string, error) {
	random := make([]byte, ownerBytes)
	if _, err := rand.Read(random); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(random), nil
}

// newToken makes a token that no lock has had.
func (l *Locker) newToken(metadata string) (token string, err error) {
	if l.token != nil {
		token, err = l.token()
	} else {
		token, err = l.randomToken()
	}
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

func (l *Locker) randomToken() (string, error) {
	random := make([]byte, randomBytes)
	if _, err := rand.Read(random); err != nil {
		return "", err
	}
	text := make([]byte, 0, tokenChars)
	text = append(append(text, l.self...), '.')
	return string(base64.RawURLEncoding.AppendEncode(text, random)), nil
}

// ownerOf returns the owner part of a token, "" for one of another make.
func ownerOf(token string) string {
	if len(token) < tokenChars || token[ownerChars] != '.' {
		return ""
	}
	return token[:ownerChars]
}

// metadataOf returns the metadata of a token, "" where there is none.
func metadataOf(token string) string {
	if ownerOf(token) == "" {
		return ""
	}
	_, metadata, _ := strings.Cut(token[tokenChars:], ":")
	return metadata
}
