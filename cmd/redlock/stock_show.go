package main

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/stock"
)

// stockShow prints how the stock is sold.
type stockShow struct{ *show }

func (s stockShow) title(p stock.Plan, about string) {
	fmt.Fprintf(s.w, "%d items in stock, and %d buyers in %d processes. Each sale takes a lock over\n"+
		"%d nodes for %s, reads the stock, and writes one less. %d holders are stopped\n"+
		"(SIGSTOP) in between until others have had the lock, and then go on.\n",
		p.Items, p.Buyers, p.Processes, len(p.Nodes), p.TTL, p.Pauses)
	fmt.Fprintln(s.w, s.dim.Sprintf("Nodes: %s. Stock: inside this program", about))
}

// sale begins one of the two sales.
func (s stockShow) sale(checked bool) {
	if checked {
		s.step(2, "Each write carries a fencing token, and is checked where the stock is.")
	} else {
		s.step(1, "The lock alone: nobody checks what is written.")
	}
}

// paused tells what became of a holder that was stopped.
func (s stockShow) paused(p stock.Pause) {
	s.line("Process %d is stopped: it holds the lock, and has read a stock of %d.", p.Process, p.Read)
	meanwhile := fmt.Sprintf("%d others sell, down to %d", p.Others, p.Found)
	if p.Others == 0 {
		meanwhile = fmt.Sprintf("The next holder reads %d", p.Found)
	}
	if p.Refused {
		s.line("  %s; its late write is %s.", meanwhile, s.good.Sprint("refused"))
	} else {
		s.line("  %s; then it goes on and %s.", meanwhile, s.bad.Sprintf("writes %d", p.Read-1))
	}
}

// sold tells the outcome of a sale.
func (s stockShow) sold(r *stock.Result) {
	c := s.good
	if r.Oversold() > 0 {
		c = s.bad
	}
	fmt.Fprintln(s.w)
	s.line("%s", c.Sprintf("%d items in stock, %d sold: oversold by %d.", r.Plan.Items, len(r.Sales), r.Oversold()))
	s.line("%d holders were paused, %d sales refused (fence.ErrStale).", len(r.Pauses), len(r.Refusals))
}

func (s stockShow) end(oversold int, took time.Duration) {
	fmt.Fprintf(s.w, "\n%s Oversold by %d without the check, and by nothing with it. It took %s.\n",
		s.good.Sprint("✔"), oversold, duration(took))
}
