package stock

import (
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// Sale is the record of one item sold.
type Sale struct {
	Token uint64 // the fencing token of the holder that wrote it
	Buyer int
	Left  int // the stock that was written with it
}

const saleForm = "token %d buyer %d left %d"

func (s Sale) String() string { return fmt.Sprintf(saleForm, s.Token, s.Buyer, s.Left) }

func parseSale(text string) (s Sale, err error) {
	if _, err := fmt.Sscanf(text, saleForm, &s.Token, &s.Buyer, &s.Left); err != nil {
		return s, fmt.Errorf("stock: the record of a sale is %q: %w", text, err)
	}
	return s, nil
}

// Refusal is a read or write that the resource refused with [fence.ErrStale].
type Refusal struct {
	Buyer int
	Token uint64 // the holder's
	Seen  uint64 // the higher one that had been there
}

// Result is what came of all buyers.
type Result struct {
	Plan     Plan
	Left     int    // the stock in the end
	Sales    []Sale // as recorded by the resource, in the order in which they were written
	Unserved int    // buyers that were told that all is sold
	Refusals []Refusal
	Pauses   []Pause
}

// Oversold is how many items were sold that were not there.
func (r *Result) Oversold() int { return max(0, len(r.Sales)-r.Plan.Items) }

// Err returns nil if the sale went as it has to: with the check, every late write was refused and what was sold is what is gone; without
// it, every late write was accepted, and more was sold than there was.
func (r *Result) Err() error {
	p := r.Plan
	if len(r.Pauses) != p.Pauses {
		return fmt.Errorf("stock: %d holders were paused: must be %d", len(r.Pauses), p.Pauses)
	}
	for _, pause := range r.Pauses {
		if pause.Refused != p.Checked {
			return fmt.Errorf("stock: the late write of buyer %d: refused is %t, must be %t", pause.Buyer, pause.Refused, p.Checked)
		}
	}
	if !p.Checked {
		if r.Oversold() == 0 {
			return fmt.Errorf("stock: %d of %d items were sold without a check: must be more than there are", len(r.Sales), p.Items)
		}
		return nil
	}
	if len(r.Sales) != p.Items || r.Left != 0 {
		return fmt.Errorf("stock: %d of %d items were sold with the check, and %d are left: all must be sold, and none twice",
			len(r.Sales), p.Items, r.Left)
	}
	for i, sale := range r.Sales {
		switch {
		case sale.Left != p.Items-i-1:
			return fmt.Errorf("stock: sale %d is %q: must leave %d", i+1, sale, p.Items-i-1)
		case i > 0 && sale.Token <= r.Sales[i-1].Token:
			return fmt.Errorf("stock: sale %d is %q after %q: the token must be higher", i+1, sale, r.Sales[i-1])
		}
	}
	return nil
}

// open puts the items in stock.
func open(c redis.Conn, k keys, items int) error {
	_, err := c.Do("SET", k.stock, items)
	return err
}

// audit adds what the resource has recorded.
func (r *Result) audit(c redis.Conn, k keys) (err error) {
	if r.Left, err = redis.Int(c.Do("GET", k.stock)); err != nil {
		return err
	}
	records, err := redis.Strings(c.Do("LRANGE", k.sales, 0, -1))
	for _, record := range records {
		sale, wrong := parseSale(record)
		r.Sales, err = append(r.Sales, sale), errors.Join(err, wrong)
	}
	return err
}
