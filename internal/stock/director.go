package stock

import (
	"context"
	"fmt"
	"time"
)

const (
	lead  = 5 // how many others sell while a holder is paused
	apart = 2 // sales between two pauses
)

// Pause is what happened to a holder in the middle of its sale.
type Pause struct {
	Process int // ID of the process that was stopped
	Buyer   int
	Token   uint64
	Read    int // the stock, before it was stopped
	// Others is how many others sold meanwhile. 0: the late write came in the middle of the sale of the next holder.
	Others  int
	Found   int // the stock that the last of the others wrote, or that the next holder has read
	Refused bool
}

// holder is a buyer between reading and writing.
type holder struct {
	worker *worker
	event
}

// director says when a process is stopped and when it goes on. Whatever the machine does meanwhile, somebody who has taken the lock
// after the paused holder reads before its late write, and one of the two writes over the other.
type director struct {
	plan   Plan
	result *Result
	crew   *crew

	ready    []*worker // have started
	ended    int
	selling  int // sales since the last pause
	late     *holder
	pause    Pause
	thawed   bool
	rivals   map[int]int // the stock that buyers read who may write since late is paused
	opponent *holder     // has read and is kept from writing, until the late write has come
}

// run returns when all buyers have been served and their processes have ended.
func (d *director) run(ctx context.Context, prefix string) error {
	crew, err := hire(d.plan, prefix)
	defer crew.dismiss()
	d.crew = crew
	if err != nil {
		return err
	}
	quiet := time.NewTimer(patience)
	defer quiet.Stop()
	for d.ended < len(d.crew.workers) {
		select {
		case r := <-d.crew.reports:
			if err := d.hear(r); err != nil {
				return err
			}
			quiet.Reset(patience)
		case <-quiet.C:
			return fmt.Errorf("stock: nothing has happened for %s, after %d of %d pauses", patience, len(d.result.Pauses), d.plan.Pauses)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (d *director) hear(r report) error {
	if r.ended {
		d.ended++
		return r.from.failure()
	}
	switch e := r.event; e.What {
	case ready:
		return d.begin(r.from)
	case between:
		return d.meet(&holder{r.from, e})
	case soldOut:
		d.result.Unserved++
		return nil
	case sold:
		d.selling++
		return d.written(e)
	case refused:
		d.result.Refusals = append(d.result.Refusals, Refusal{Buyer: e.Buyer, Token: e.Token, Seen: e.Seen})
		return d.written(e)
	default:
		return fmt.Errorf("stock: process %d says %q", r.from.process.PID(), e.What)
	}
}

// begin lets the processes begin when all are ready.
func (d *director) begin(w *worker) error {
	if d.ready = append(d.ready, w); len(d.ready) < len(d.crew.workers) {
		return nil
	}
	for _, w := range d.ready {
		if err := w.answer(0); err != nil {
			return err
		}
	}
	return nil
}

// meet decides about a buyer that has read and not written yet.
func (d *director) meet(h *holder) error {
	if d.late == nil {
		if len(d.result.Pauses) < d.plan.Pauses && d.selling >= apart && h.Stock > lead {
			return d.stop(h)
		}
		return h.worker.answer(h.Buyer)
	}
	if d.thawed || h.Token < d.late.Token { // or one that is late by itself
		return h.worker.answer(h.Buyer)
	}
	if len(d.result.Pauses)%2 == 1 {
		d.opponent, d.pause.Found = h, h.Stock
		return d.resume()
	}
	d.rivals[h.Buyer] = h.Stock
	return h.worker.answer(h.Buyer)
}

// stop pauses a holder.
func (d *director) stop(h *holder) error {
	if err := h.worker.process.Freeze(); err != nil {
		return fmt.Errorf("stock: process %d: %w", h.worker.process.PID(), err)
	}
	d.late, d.thawed, d.rivals = h, false, map[int]int{}
	d.pause = Pause{Process: h.worker.process.PID(), Buyer: h.Buyer, Token: h.Token, Read: h.Stock}
	return h.worker.answer(h.Buyer) // nothing but the signal keeps it from writing now
}

func (d *director) resume() error {
	d.thawed = true
	if err := d.late.worker.process.Thaw(); err != nil {
		return fmt.Errorf("stock: process %d: %w", d.late.worker.process.PID(), err)
	}
	return nil
}

// written is told of every sale that was made or refused.
func (d *director) written(e event) error {
	switch {
	case d.late == nil:
		return nil
	case e.Buyer == d.late.Buyer:
		return d.landed(e)
	}
	read, rival := d.rivals[e.Buyer]
	delete(d.rivals, e.Buyer)
	if e.What != sold || !rival || d.thawed {
		return nil
	}
	d.pause.Others++
	d.pause.Found = read - 1
	if d.pause.Others == lead {
		return d.resume()
	}
	return nil
}

// landed ends a pause: the late write has come.
func (d *director) landed(e event) error {
	d.pause.Refused = e.What == refused
	d.result.Pauses = append(d.result.Pauses, d.pause)
	if d.plan.Paused != nil {
		d.plan.Paused(d.pause)
	}
	waits := d.opponent
	d.late, d.opponent, d.selling = nil, nil, 0
	if waits == nil {
		return nil
	}
	return waits.worker.answer(waits.Buyer)
}
