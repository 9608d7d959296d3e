package fence

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// undoTimeout is how long a failed Transact waits for the reply to UNWATCH or DISCARD.
const undoTimeout = time.Second

// Transact checks fence in the guard key and, if it passes, runs your own transaction. It calls queue between MULTI and
// EXEC, which sends the commands, and nothing else, over the same connection. replies[i] is the reply to the i-th
// command. WATCH keys before you read them.
//
// c is one connection, not a pool (a *redis.Conn of go-redis, a DedicatedClient of rueidis). Afterwards it watches
// nothing, unless it broke or an argument is bad.
//
// The errors:
//   - [ErrConflict]: the guard key, or a key that you watched, was changed. Begin again with WATCH and the same fence;
//   - a [*StaleError] with Seen, [ErrGuard], [ErrInvalid], the error of queue, or a command that was refused: nothing
//     was written;
//   - error replies to single commands, joined, beside the replies: Redis has done the others and stored the fence;
//   - an error of the client or of ctx. If the reply to EXEC was lost, all was done or nothing: read the data.
func Transact(ctx context.Context, c Doer, guard string, fence uint64, queue func() error) (replies []any, err error) {
	if err := checkGuard(guard, fence); err != nil {
		return nil, err
	}
	end := func(command string) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		_, err := c.Do(ctx, command)
		return err
	}
	undo := "UNWATCH" // at first for the keys that the caller watches
	defer func() {
		if undo != "" {
			err = errors.Join(err, end(undo))
		}
	}()
	if _, err := send(ctx, c, "WATCH", guard); err != nil {
		if errors.Is(err, ErrInvalid) {
			undo = "" // c is a pool, and has sent nothing
		}
		return nil, wrap(guard, err)
	}
	seen, err := readGuard(ctx, c, guard)
	if err != nil {
		return nil, err
	}
	if seen > fence {
		return nil, &StaleError{Resource: guard, Fence: fence, Seen: seen}
	}
	if _, err := send(ctx, c, "MULTI"); err != nil {
		return nil, wrap(guard, err)
	}
	undo = "DISCARD"
	// An equal fence is not set again: for clients that watch the guard key, that would be a change.
	if seen < fence {
		if _, err := send(ctx, c, "SET", guard, formatFence(fence)); err != nil {
			return nil, wrap(guard, err)
		}
	}
	if err := queue(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, wrap(guard, err)
	}
	undo = "" // EXEC ends the transaction, whatever it returns
	reply, err := c.Do(ctx, "EXEC")
	if err != nil {
		if ctx.Err() != nil {
			_ = end("DISCARD") // the client may have noticed before it sent EXEC; otherwise there is nothing to discard
		}
		return nil, wrap(guard, err)
	}
	if reply == nil {
		return nil, fmt.Errorf("%w: guard key %q", ErrConflict, guard)
	}
	replies, ok := reply.([]any)
	if !ok || seen < fence && len(replies) == 0 {
		return nil, unexpected(guard, reply)
	}
	if seen < fence {
		replies = replies[1:]
	}
	return replies, failures(guard, replies)
}

// readGuard returns the highest fence accepted, or 0 if there is none.
func readGuard(ctx context.Context, c Doer, guard string) (uint64, error) {
	// The TTL comes first. If another client sets the key between the two commands, it counts as missing here, and WATCH
	// stops the EXEC.
	ttl, err := send(ctx, c, "PTTL", guard)
	if err != nil {
		return 0, wrap(guard, err)
	}
	if ttl == int64(-2) {
		return 0, nil
	}
	reply, err := send(ctx, c, "GETRANGE", guard, 0, 63) // of somebody's data, only the part that an error shows
	if err != nil {
		return 0, wrap(guard, err)
	}
	text, _ := textOf(reply)
	seen, ok := parseFence(text)
	switch {
	case !ok:
		return 0, guardError(guard, text)
	case ttl != int64(-1):
		return 0, expiringError(guard, ttl)
	}
	return seen, nil
}

// failures returns the error replies among the replies to EXEC.
func failures(guard string, replies []any) error {
	var failed []error
	for i, reply := range replies {
		if err, ok := reply.(error); ok {
			failed = append(failed, fmt.Errorf("fence: %q: command %d of %d: %w", guard, i+1, len(replies), err))
		}
	}
	return errors.Join(failed...)
}
