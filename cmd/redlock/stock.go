package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/stock"
)

const (
	stockItems     = 50
	stockBuyers    = 200
	stockProcesses = 4
	stockPauses    = 4
	minStockTTL    = 100 * time.Millisecond
	maxStockTTL    = 10 * time.Second // every pause lasts for so long
)

// stockCmd is the subcommand stock.
type stockCmd struct {
	Nodes   []string      `placeholder:"URL" help:"Real Redis nodes for the lock: redis://, rediss:// or unix:// URLs with commas between them. The stock stays inside this program."`
	TTL     time.Duration `default:"300ms" help:"How long a lock lives, from 100ms to 10s. Every pause lasts for a little longer."`
	NoColor bool          `help:"Print without colours, as where NO_COLOR is set or the output is no terminal."`
}

// Validate checks the flags before anything is started or connected.
func (c *stockCmd) Validate() error {
	if c.Nodes != nil { // given, if only as nothing
		if _, err := checkURLs(c.Nodes); err != nil {
			return err
		}
	}
	if c.TTL < minStockTTL || c.TTL > maxStockTTL {
		return fmt.Errorf("--ttl: %s: must be from %s, or a lock may be over before its sale is, to %s", c.TTL, minStockTTL, maxStockTTL)
	}
	return stock.Supported()
}

// Run has the stock sold without the check and with it. nil: both sales went as they should. Whatever the outcome, nothing
// of them is left when it returns.
func (c *stockCmd) Run(ctx context.Context, to streams) error {
	began := time.Now()
	own, err := newEmbedded(1) // the stock
	if err != nil {
		return err
	}
	defer own.close()
	plan := stock.Plan{
		Nodes: c.Nodes, Resource: own.urls()[0], Items: stockItems, Buyers: stockBuyers, Processes: stockProcesses,
		Pauses: stockPauses, TTL: c.TTL, Timeout: c.TTL / 2,
	}
	about := remoteKind
	if plan.Nodes == nil {
		nodes, err := newEmbedded(embeddedNodes)
		if err != nil {
			return err
		}
		defer nodes.close()
		plan.Nodes, about = nodes.urls(), nodes.words().about
	}
	show := stockShow{newShow(to.out, c.NoColor)}
	show.title(plan, about)
	plan.Paused = show.paused
	var results [2]*stock.Result
	for i := range results {
		plan.Checked = i == 1
		show.sale(plan.Checked)
		result, err := stock.Run(ctx, plan)
		switch {
		case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return fmt.Errorf("interrupted in sale %d: %w", i+1, err)
		case err != nil:
			return fmt.Errorf("sale %d failed: %w", i+1, err)
		}
		show.sold(result)
		if err := result.Err(); err != nil {
			return fmt.Errorf("sale %d went otherwise: %w", i+1, err)
		}
		results[i] = result
	}
	show.end(results[0].Oversold(), time.Since(began))
	return nil
}
