// Command fleet is a program whose instances share a job: each second, or each few seconds, one of them runs it.
//
//	go run ./examples/fleet -nodes redis://a:6379,redis://b:6379,redis://c:6379
//
// Start it several times, on one machine or on many. It prints the time for which each of its runs is planned, in
// Unix seconds: none comes twice, and none is missing while an instance runs and a majority of the servers answers.
// That needs instances that begin a run less than half of the time between runs apart (gocronlock.AtLeast).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/quorumlock/quorumlock/adapters/gocronlock"
	"github.com/quorumlock/quorumlock/redlock"
)

func main() {
	nodes := flag.String("nodes", "redis://127.0.0.1:6379", "URLs of the Redis servers, with commas between them")
	every := flag.Int("every", 1, "seconds between runs, of which 60 is a multiple")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, strings.Split(*nodes, ","), *every); err != nil {
		log.Fatal(err)
	}
}

// run is an instance, until ctx ends.
func run(ctx context.Context, urls []string, every int) error {
	interval := time.Duration(every) * time.Second
	servers, err := redlock.Open(urls, redlock.WithKeyPrefix("fleet:"))
	if err != nil {
		return err
	}
	defer servers.Close() // when the locks have ended
	locker, err := gocronlock.New(servers, gocronlock.AtLeast(interval/2))
	if err != nil {
		return err
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return err
	}
	each := gocron.CronJob(fmt.Sprintf("*/%d * * * * *", every), true)
	_, err = scheduler.NewJob(each, gocron.NewTask(func(ctx context.Context) {
		ctx, cancel := locker.Context(ctx, "report") // ends when the lock is lost
		defer cancel()
		if err := report(ctx, interval); err != nil {
			log.Print(err) // gocron tells it nobody but its event listeners
		}
	}), gocron.WithName("report"))
	if err != nil {
		return err
	}
	scheduler.Start()
	<-ctx.Done()

	// Jobs end, and then their locks: without Wait they might stay for the TTL, and keep the others from running the job.
	err = scheduler.Shutdown()
	locks, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, locker.Wait(locks))
}

// report stands for the work, which looks at ctx before each step.
func report(ctx context.Context, interval time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	fmt.Println(time.Now().Round(interval).Unix()) // Truncate is the time before, if the timer fires a moment early
	return nil
}
