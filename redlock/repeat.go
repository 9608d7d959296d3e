package redlock

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
)

// repeat makes the Repeat of a call that does not wait.
func (l *Locker) repeat(req *request) *engine.Repeat {
	return l.engine.Repeat(func() (string, error) {
		if err := req.nextToken(); err != nil {
			return "", err
		}
		return l.engine.Token(req.token, req.metadata), nil
	})
}

// until returns a context that ends with ctx, or when the Locker's clock shows at. stop frees its resources. It reports
// whether the context has ended because of the clock.
func (l *Locker) until(ctx context.Context, at time.Time) (limited context.Context, stop func() (over bool)) {
	limited, cancel := context.WithCancel(ctx)
	timer := l.engine.Clock.AfterFunc(at.Sub(l.engine.Clock.Now()), cancel)
	return limited, func() bool {
		defer cancel()
		return !timer.Stop() && ctx.Err() == nil
	}
}

// repeatAfter pauses after a lost round, and returns the token of the next one. It prepares the calls for that round:
// one for each name. It returns "" if the lost round was the last, or if ctx or the Locker has ended.
func (l *Locker) repeatAfter(
	ctx context.Context, repeat *engine.Repeat, lost []engine.LostRound, calls ...*engine.Call,
) (token string, err error) {
	pause, ok := repeat.Lost(lost...)
	if !ok {
		return "", nil
	}
	l.pause(ctx, pause, nil)
	if l.stopped(ctx) {
		return "", nil
	}
	return repeat.Begin(calls...)
}
