// Command stock shows what a fencing token is for.
//
//	go run ./examples/stock
//
// Buyers want the 50 items of a stock, which is a number on a Redis server. Whoever sells an item
// takes a lock, reads the number and writes one less. Four times the process that does so is stopped
// (SIGSTOP) between the read and the write, until its lock has expired and others have had it. Then it
// goes on, and writes one less than what it read long ago. No lock can prevent that: a process does
// not notice that it was stopped, and may be stopped right after it has asked whether it holds the lock.
//
// The stock is sold twice. The first time the lock is all there is, and more is sold than there was.
// The second time each command carries the fencing token of the lock, and the server of the stock
// refuses those that come too late.
//
// seller.go sells an item, and is the part to begin with: it joins a lock with a check of the token.
// sale.go runs the processes of the sellers, stops them and lets them go on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

func main() {
	nodes := flag.String("nodes", "", "URLs of the Redis servers for the lock, with commas between them (default: five inside this program)")
	stock := flag.String("stock", "", "URL of the Redis server for the stock (default: one inside this program)")
	ttl := flag.Duration("ttl", 300*time.Millisecond, "how long a lock lives")
	checked := flag.Bool("checked", false, "with -seller: the server of the stock checks fencing tokens")
	selling := flag.Bool("seller", false, "sell to the buyers that come in on standard input")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	t := task{*nodes, *stock, *ttl, *checked}
	var err error
	if *selling {
		err = t.work(ctx, os.Stdin, os.Stdout)
	} else {
		err = run(ctx, t, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stock:", err)
		os.Exit(1)
	}
}

// run sells the stock without the check and with it. It fails if a sale goes otherwise than it should.
func run(ctx context.Context, t task, out io.Writer) error {
	var own []string // URLs of servers inside this program
	for range 6 {
		server, err := testredis.NewMemory()
		if err != nil {
			return err
		}
		defer server.Stop()
		own = append(own, server.URL())
	}
	if t.nodes == "" {
		t.nodes = strings.Join(own[:5], ",")
	}
	if t.stock == "" {
		t.stock = own[5]
	}
	conn, err := redis.DialURL(t.stock)
	if err != nil {
		return err
	}
	defer conn.Close()
	for i, title := range []string{
		"The lock alone: nobody checks what is written.",
		"Each write carries a fencing token, which is checked where the stock is.",
	} {
		fmt.Fprintf(out, "\n%d  %s\n", i+1, title)
		t.checked = i == 1
		if err := sellAll(ctx, t, conn, out); err != nil {
			return fmt.Errorf("sale %d: %w", i+1, err)
		}
	}
	return nil
}

// sellAll puts the items in stock, has them sold, and says how many were.
func sellAll(ctx context.Context, t task, conn redis.Conn, out io.Writer) error {
	if _, err := conn.Do("SET", stockKey, items); err != nil {
		return err
	}
	saleErr := sell(ctx, t, out)
	left, leftErr := redis.Int(conn.Do("GET", stockKey))
	sold, soldErr := redis.Int(conn.Do("LLEN", salesKey))
	_, err := conn.Do("DEL", stockKey, salesKey, fenceKey)
	if err := errors.Join(saleErr, leftErr, soldErr, err); err != nil {
		return err
	}
	fmt.Fprintf(out, "   %d items in stock, %d sold: oversold by %d.\n", items, sold, sold-items)
	if t.checked && sold != items || !t.checked && sold <= items || left != 0 {
		return errors.New("the stock must be oversold without the check, and never with it")
	}
	return nil
}
