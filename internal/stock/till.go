package stock

import (
	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/redlock/fence"
)

// till reads and writes the stock, for the holder of the lock with that fencing token.
type till interface {
	read(c redis.Conn, token uint64) (stock int, err error)
	write(c redis.Conn, token uint64, s Sale) error
}

// keys are those of one stock. On Redis Cluster they would share a hash tag.
type keys struct {
	stock string // how many items are left
	sales string // the list of what was sold
	fence string // the highest token seen
}

func keysOf(prefix string) keys {
	return keys{stock: prefix + "stock", sales: prefix + "sales", fence: prefix + "fence"}
}

// unchecked relies on the lock alone.
type unchecked struct{ keys }

func (k unchecked) read(c redis.Conn, _ uint64) (int, error) { return redis.Int(c.Do("GET", k.stock)) }

func (k unchecked) write(c redis.Conn, _ uint64, s Sale) error {
	_ = c.Send("MULTI") // an error comes with the next command
	_ = c.Send("SET", k.stock, s.Left)
	_ = c.Send("RPUSH", k.sales, s.String())
	_, err := c.Do("EXEC")
	return err
}

// checked reads and writes through a fence. Once a holder has read, the writes of earlier holders are refused, so that what it has
// read stays true until it writes or is refused itself. With the write alone fenced, an earlier holder could still write in between.
type checked struct{ keys }

func (k checked) read(c redis.Conn, token uint64) (int, error) {
	replies, err := fence.Run(c, k.fence, token, fence.Command{"GET", fence.Key(k.stock)})
	if err != nil {
		return 0, err
	}
	return redis.Int(replies[0], nil)
}

func (k checked) write(c redis.Conn, token uint64, s Sale) error {
	_, err := fence.Run(c, k.fence, token,
		fence.Command{"SET", fence.Key(k.stock), s.Left},
		fence.Command{"RPUSH", fence.Key(k.sales), s.String()})
	return err
}
