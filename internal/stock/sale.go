package stock

import (
	"context"
	"errors"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/redlock"
)

// errSoldOut says that nothing is left to buy.
var errSoldOut = errors.New("sold out")

// shop is what a sale needs.
type shop struct {
	locker   *redlock.Locker // with redlock.WithFencing
	lock     string          // the name of the lock
	resource *redis.Pool     // of the server that the stock is on
	till     till
	// between is called in the middle of each sale. That is where this process may be stopped.
	between func(ctx context.Context, buyer int, token uint64, stock int) error
}

// sell sells one item to a buyer: it reads the stock, and writes one less. The errors: errSoldOut; [fence.ErrStale], where a newer
// holder of the lock has been here and nothing was sold: begin again, with a lock of its own; the client's; ctx.Err().
//
// To look at lock.Err before the write would not help: the pause may come between the look and the write.
func (s *shop) sell(ctx context.Context, buyer int) error {
	lock, err := s.locker.Lock(ctx, s.lock)
	if err != nil {
		return err
	}
	// Whether the lock was held to the end does not matter any more: what was written has passed the fence.
	defer func() { _ = lock.Unlock(context.WithoutCancel(ctx)) }()
	conn := s.resource.Get()
	defer conn.Close()

	stock, err := s.till.read(conn, lock.Fence())
	if err != nil {
		return err
	}
	if stock == 0 {
		return errSoldOut
	}
	if err := s.between(ctx, buyer, lock.Fence(), stock); err != nil {
		return err
	}
	return s.till.write(conn, lock.Fence(), Sale{Token: lock.Fence(), Buyer: buyer, Left: stock - 1})
}
