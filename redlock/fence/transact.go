package fence

import (
	"errors"
	"fmt"
)

// Transact puts a fence around a transaction of your own (WATCH, MULTI, EXEC): it runs if token is at least the highest one
// that the guard key has seen, which it is then. Queue is called between MULTI and EXEC, and sends the commands over the
// same connection, on which nothing else may be sent meanwhile. Replies[i] is the reply to the i-th of them. Keys that you
// read before, to decide what to write, are watched before.
//
// C is one connection, not a pool. Afterwards it is in no transaction and watches no key, unless it broke.
//
// The errors:
//   - [ErrConflict]: the guard key, or one that you watched, was changed meanwhile. Nothing was written. Begin again with
//     what you read under WATCH, and call Transact with the same token. If a newer holder was the reason, that returns
//     ErrStale. Writers with equal tokens do not disturb each other.
//   - a [*StaleError] with Seen, [ErrGuard], one that names a bad argument, that of queue, or the server's refusal to queue
//     a command: nothing was written.
//   - error replies to single commands, joined and wrapped, beside the replies: Redis has done the others, and raised the token.
//   - another error of the client, wrapped. If EXEC was sent and its reply was lost, all was done or nothing. The guard key
//     does not tell which; read what you wrote before you call Transact again.
func Transact(c Doer, guard string, token uint64, queue func() error) (replies []any, err error) {
	if err := checkGuard(guard, token); err != nil {
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
	if seen > token {
		return nil, &StaleError{Resource: guard, Token: token, Seen: seen}
	}
	if _, err := c.Do("MULTI"); err != nil {
		return nil, wrap(guard, err)
	}
	undo = "DISCARD"
	// Not where it is the same: that would be a change to those who watch.
	if seen < token {
		if _, err := c.Do("SET", guard, formatToken(token)); err != nil {
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
		return nil, wrap(guard, ErrConflict)
	}
	replies, ok := reply.([]any)
	if !ok || seen < token && len(replies) == 0 {
		return nil, fmt.Errorf("fence: %q: unexpected reply %v", guard, reply)
	}
	if seen < token {
		replies = replies[1:]
	}
	return replies, failures(guard, replies)
}

// readGuard returns the highest token seen, 0 for none.
func readGuard(c Doer, guard string) (uint64, error) {
	reply, err := c.Do("GET", guard)
	if err != nil {
		return 0, wrap(guard, err)
	}
	if reply == nil {
		return 0, nil
	}
	text, _ := textOf(reply)
	seen, ok := parseToken(text)
	if !ok {
		return 0, guardError(guard, reply)
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
