package redlock

import (
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/token"
)

// newToken makes a token that no lock has had.
func (l *Locker) newToken(metadata string) (string, error) {
	made, err := l.token()
	if err == nil && made == "" {
		err = errors.New("an empty token")
	}
	if err != nil {
		return "", fmt.Errorf("token source: %w", err)
	}
	return token.WithMetadata(made, metadata), nil
}
