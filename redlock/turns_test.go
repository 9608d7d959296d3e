package redlock_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// The danger: a writer that gives up takes back what another has said, and readers come in again before that one.
func TestLock_AWriterGetsOnBesideReadersAndWritersThatGiveUp(t *testing.T) {
	t.Parallel()
	const times, hold = 10, 50 * time.Millisecond
	c := onReal(t, 3)
	contest := newContest(t)
	for range 3 {
		contest.enter("readers", c.locker(), 4, hold, redlock.Shared())
	}
	eventually(t, func() bool { return contest.locks(contest.groups["readers"]) > 12 }, "they are at work")
	for range 4 {
		contest.enter("impatient", c.locker(), 1, 0, redlock.MaxWait(hold/3))
	}
	contest.enter("patient", c.locker(), 1, 0)
	contest.until(map[string]int{"patient": times}, 80*times)
}

// The danger: a reader gets the turn and keeps the list of the processes that wait.
func TestLock_WritersOfTwoProcessesGetOnWithAndWithoutReaders(t *testing.T) {
	t.Parallel()
	const times, hold = 150, 5 * time.Millisecond
	inParallel(t, map[string]int{"without readers": 0, "with two readers": 2}, func(t *testing.T, readers int) {
		c := onReal(t, 3)
		contest := newContest(t)
		contest.many = 25 // both processes have the turn twice, 6 locks each
		goals := map[string]int{"first": times, "second": times}
		contest.enter("first", c.locker(), 6, hold)
		contest.enter("second", c.locker(), 6, hold)
		if readers > 0 {
			contest.enter("readers", c.locker(), readers, hold, redlock.Shared())
			goals["readers"] = times / 15
		}
		contest.until(goals, 20*times)
		long := contest.groups["first"].long + contest.groups["second"].long
		require.Less(t, long, 2*times/20, "one wait in 20 may be long")
	})
}

// far puts the servers of a node further away. What is sent arrives later, and so does what comes back.
func far(oneWay time.Duration) pool.Option {
	return pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		server, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		near, relay := net.Pipe()
		go carry(server, relay, oneWay)
		go carry(relay, server, oneWay)
		return near, nil
	})
}

// carry passes on what comes from a connection, each part after a delay. It closes both when one of them ends.
func carry(to io.WriteCloser, from io.ReadCloser, delay time.Duration) {
	type part struct {
		data []byte
		due  time.Time
	}
	parts := make(chan part, 1024)
	go func() {
		defer close(parts)
		for {
			data := make([]byte, 16<<10)
			n, err := from.Read(data)
			if err != nil {
				return
			}
			parts <- part{data[:n], time.Now().Add(delay)}
		}
	}()
	for p := range parts {
		pass(time.Until(p.due))
		if _, err := to.Write(p.data); err != nil {
			_ = from.Close() // ends the reader
		}
	}
	_, _ = to.Close(), from.Close()
}

// The danger: processes that are near take a free lock before one that is far away has heard that it is free.
func TestLock_AProcessFarFromTheServersGetsOn(t *testing.T) {
	t.Parallel()
	const times, hold = 30, 5 * time.Millisecond
	c := onReal(t, 3)
	contest := newContest(t)
	contest.enter("near", c.locker(), 1, hold)
	contest.enter("near", c.locker(), 1, hold)
	contest.enter("far", lockerOver(t, c.nodes(far(5*time.Millisecond))), 1, hold)
	contest.until(map[string]int{"far": times}, times*20)
}

// The danger: all waiting processes are woken at once, so chance decides which of them is next.
func TestLock_ProcessesThatComeOneAfterTheOtherGetItInThatOrder(t *testing.T) {
	const processes, rounds = 8, 16
	c := onReal(t, 3)
	holder := c.locker()
	first := waits(t, c.locker(), "name")
	waiter := lockBeside(t.Context(), holder, "name")
	c.each(func(i int) {
		eventually(t, func() bool { return c.listening(i) == 1 }, "it listens, as it waits")
	})
	unlock(t, first)
	unlock(t, won(t, waiter))
	var lockers []*redlock.Locker
	for range processes {
		lockers = append(lockers, c.locker())
	}
	wrong := 0
	for range rounds {
		lock, order := waits(t, holder, "name"), &line{tb: t}
		for i, locker := range lockers {
			said := c.calls("publish")
			order.join(locker, fmt.Sprint(i))
			eventually(t, func() bool { return c.calls("publish") > said }, "it tells the holder that it waits")
		}
		unlock(t, lock)
		came := order.end()
		for i, earlier := range came {
			for _, later := range came[i+1:] {
				if later < earlier {
					wrong++
				}
			}
		}
		t.Log(came)
	}
	t.Log(wrong, "wrong")
	pairs := rounds * processes * (processes - 1) / 2
	require.Less(t, wrong, pairs/7, "of %d pairs: by chance it is half of them", pairs)
}
