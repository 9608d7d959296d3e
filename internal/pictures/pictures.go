// Package pictures draws the pictures of the documents: time lines of what happens to a lock. Each is drawn from the recorded
// events of a scenario on redis-server processes, with faults that the scenario makes; nothing in it is made up. The program
// draw writes them.
package pictures

import (
	"context"
	"errors"
	"time"
)

// Picture is a picture of the documents.
type Picture struct {
	File     string // in docs/pictures
	scenario func(context.Context) (*Timeline, error)
}

// All returns the pictures.
func All() []Picture {
	return []Picture{
		{"round.svg", round},
		{"loss.svg", loss},
		{"fencing.svg", fencing},
		{"turn.svg", turn},
	}
}

// patience is how long a scenario may take. Each takes a few seconds; one that went otherwise may wait for what does not come.
const patience = 20 * time.Second

// Timeline runs the scenario of the picture, and again, until ctx ends, if it went otherwise: on a busy machine what was to come
// first may come later. It fails if the recorded events do not show in the end what the picture is for.
func (p Picture) Timeline(ctx context.Context) (*Timeline, error) {
	for {
		attempt, cancel := context.WithTimeout(ctx, patience)
		t, err := p.scenario(attempt)
		otherwise := errors.Is(err, errOtherwise) || attempt.Err() != nil
		cancel()
		switch {
		case err == nil:
			return t, nil
		case !otherwise || ctx.Err() != nil:
			return nil, err
		}
	}
}
