// Command stock shows what a fencing token is for.
//
//	go run ./examples/stock
//
// Buyers want the 50 items of a stock, which is a number on a Redis server. Whoever sells an item
// takes a lock, reads the number and writes one less. Four times the process that does so is stopped
// (SIGSTOP) between the read and the write, until its lock has expired and another has sold items. Then
// it goes on, and writes one less than what it read long ago. No lock can prevent that: a process does
// not notice that it was stopped, and may be stopped right after it has asked whether it holds the lock.
//
// The stock is sold twice. The first time the lock is all there is, and more is sold than there was.
// The second time each command carries the fencing token of the lock, and the server of the stock
// refuses those that come too late.
//
// seller.go sells an item, and is the part to begin with: it joins a lock with a check of the token.
// sale.go runs the processes of two sellers, stops them and lets them go on.
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

// task is what to sell, and how.
type task struct {
	nodes   string // URLs of the servers that the lock is on, with commas between them
	stock   string // URL of the server that the stock is on
	ttl     time.Duration
	checked bool
}

func main() {
	var t task
	flag.StringVar(&t.nodes, "nodes", "", "URLs of the Redis servers for the lock, with commas between them (default: five inside this program)")
	flag.StringVar(&t.stock, "stock", "", "URL of the Redis server for the stock (default: one inside this program)")
	flag.DurationVar(&t.ttl, "ttl", 300*time.Millisecond, "how long a lock lives")
	flag.BoolVar(&t.checked, "checked", false, "with -seller: the server of the stock checks fencing tokens")
	selling := flag.Bool("seller", false, "sell to the buyers that come in on standard input")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *selling {
		err = t.serve(ctx, os.Stdin, os.Stdout)
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
	servers, err := testredis.Embed(6, nil)
	if err != nil {
		return err
	}
	defer testredis.Close(servers)
	if t.nodes == "" {
		t.nodes = strings.Join(testredis.URLs(servers[:5]), ",")
	}
	if t.stock == "" {
		t.stock = servers[5].URL()
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
		sold, err := sellAll(ctx, t, conn, out)
		if err != nil {
			return fmt.Errorf("sale %d: %w", i+1, err)
		}
		if t.checked != (sold == items) {
			return errors.New("the stock must be oversold without the check, and never with it")
		}
	}
	return nil
}

// sellAll puts the items in stock, has them sold, and returns how many were.
func sellAll(ctx context.Context, t task, conn redis.Conn, out io.Writer) (sold int, err error) {
	if _, err := conn.Do("SET", stockKey, items); err != nil {
		return 0, err
	}
	err = sell(ctx, t, out)
	sold, soldErr := redis.Int(conn.Do("LLEN", salesKey))
	_, delErr := conn.Do("DEL", stockKey, salesKey, fenceKey)
	if err := errors.Join(err, soldErr, delErr); err != nil {
		return 0, err
	}
	fmt.Fprintf(out, "   %d items in stock, %d sold: oversold by %d.\n", items, sold, sold-items)
	return sold, nil
}
