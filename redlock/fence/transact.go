package fence

import (
	"errors"
	"fmt"
)

// Transact checks fence in the guard key and, if it passes, runs a transaction of your own (WATCH, MULTI,
// EXEC). It calls queue between MULTI and EXEC. Queue sends the commands over the same connection, on which
// nothing else may be sent meanwhile. Replies[i] is the reply to the i-th of them. If the commands depend
// on keys that you have read, WATCH those keys before you read them.
//
// C is one connection, not a pool. Afterwards it is in no transaction and watches no key, unless it broke.
//
// The errors:
//   - [ErrConflict]: the guard key, or one that you watched, was changed meanwhile. Nothing was written.
//     Begin again with your WATCH and reads, and the same fence. If a newer holder was the reason, that
//     returns ErrStale. Writers with equal fences do not conflict.
//   - a [*StaleError] with Seen, [ErrGuard], [ErrInvalid], that of queue, or the server's
//     refusal to queue a command: nothing was written.
//   - error replies to single commands, joined and wrapped, beside the replies: Redis has done the others
//     and stored the fence.
//   - another error of the client, wrapped. If EXEC was sent and its reply was lost, all was done or
//     nothing. The guard key does not tell which: read what you wrote before you call Transact again.
func Transact(c Doer, guard string, fence uint64, queue func() error) (replies []any, err error) {
	if err := checkGuard(guard, fence); err != nil {
		return nil, err
	}
	if _, err := c.Do("WATCH", guard); err != nil {
		return nil, wrap(guard, err)
	}
	undo := "UNWATCH"
	defer func() {
		if undo != "" {
			_, failed := c.Do(undo)
			err = errors.Join(err, failed)
		}
	}()
	seen, err := readGuard(c, guard)
	if err != nil {
		return nil, err
	}
	if seen > fence {
		return nil, &StaleError{Resource: guard, Fence: fence, Seen: seen}
	}
	if _, err := c.Do("MULTI"); err != nil {
		return nil, wrap(guard, err)
	}
	undo = "DISCARD"
	// An equal fence is not set again: for clients that watch the guard key, that would be a change.
	if seen < fence {
		if _, err := c.Do("SET", guard, formatFence(fence)); err != nil {
			return nil, wrap(guard, err)
		}
	}
	if err := queue(); err != nil {
		return nil, err
	}
	undo = "" // EXEC ends the transaction in any case
	reply, err := c.Do("EXEC")
	if err != nil {
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

// readGuard returns the highest fence accepted; 0 means none.
func readGuard(c Doer, guard string) (uint64, error) {
	// The TTL first: a key that another client sets between the two commands is none here, and WATCH stops the EXEC.
	ttl, err := c.Do("PTTL", guard)
	if err != nil {
		return 0, wrap(guard, err)
	}
	if ttl == int64(-2) {
		return 0, nil
	}
	reply, err := c.Do("GETRANGE", guard, 0, 63) // no more than an error shows of somebody's data
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

// failures returns the error replies among those of EXEC.
func failures(guard string, replies []any) error {
	var failed []error
	for i, reply := range replies {
		if err, ok := reply.(error); ok {
			failed = append(failed, fmt.Errorf("fence: %q: command %d of %d: %w", guard, i+1, len(replies), err))
		}
	}
	return errors.Join(failed...)
}
