package redlock

import (
	"errors"
	"fmt"
	"strings"
)

// errNoToken is how a call has ended that its TokenSource never returned to.
var errNoToken = errors.New("TokenSource: it has not returned")

// nextToken asks the source of the call, if it has one, for the token of the round that is next.
func (r *request) nextToken() error {
	if r.source == nil {
		return nil
	}
	made, err := r.source()
	switch {
	case err != nil:
		return fmt.Errorf("TokenSource: %w", err)
	case made == "":
		return invalid("TokenSource: an empty token")
	case strings.Contains(made, "|"):
		return invalid("TokenSource: the token %.64q must not contain |, which separates the fencing token", made)
	case r.token != nil && made == *r.token:
		return invalid("TokenSource: the token %.64q was that of the round before", made)
	}
	r.token = &made
	return checkText("token", made)
}
