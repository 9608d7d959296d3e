package gocronlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-co-op/gocron/v2"

	"github.com/quorumlock/quorumlock/adapters/gocronlock"
	"github.com/quorumlock/quorumlock/redlock"
)

// startServers starts Redis servers inside the program, for the examples.
func startServers(n int) (urls []string, stop func()) {
	var servers []*miniredis.Miniredis
	for range n {
		server, err := miniredis.Run()
		if err != nil {
			log.Fatal(err)
		}
		servers = append(servers, server)
		urls = append(urls, "redis://"+server.Addr())
	}
	return urls, func() {
		for _, s := range servers {
			s.Close()
		}
	}
}

// runScheduler is an instance of a program. Its job runs in one of the instances.
func runScheduler(ctx context.Context, servers *redlock.Locker, report func(context.Context) error) error {
	locker, err := gocronlock.New(servers, gocronlock.AtLeast(2*time.Second))
	if err != nil {
		return err
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return err
	}
	at := gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()) // in a program, gocron.CronJob("0 3 * * *", false) for example
	_, err = scheduler.NewJob(at, gocron.NewTask(func(ctx context.Context) error {
		ctx, cancel := locker.Context(ctx, "report") // ends when the lock is lost
		defer cancel()
		return report(ctx)
	}), gocron.WithName("report"))
	if err != nil {
		return err
	}
	scheduler.Start()
	<-ctx.Done() // the program runs
	return errors.Join(scheduler.Shutdown(), locker.Wait(context.WithoutCancel(ctx)))
}

func Example() {
	urls, stop := startServers(3)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	report := func(context.Context) error {
		fmt.Println("writing the report")
		time.AfterFunc(time.Second, cancel)
		return nil
	}
	var instances sync.WaitGroup
	for range 3 {
		instances.Go(func() {
			servers, err := redlock.Open(urls)
			if err != nil {
				log.Fatal(err)
			}
			defer servers.Close()
			if err := runScheduler(ctx, servers, report); err != nil {
				log.Fatal(err)
			}
		})
	}
	instances.Wait()

	// Output:
	// writing the report
}

// One instance, the leader, runs all jobs.
func ExampleElector() {
	urls, stop := startServers(3)
	defer stop()
	servers, err := redlock.Open(urls)
	if err != nil {
		log.Fatal(err)
	}
	defer servers.Close()
	ctx := context.Background()

	elector, err := gocronlock.NewElector(ctx, servers, "my-program")
	if err != nil {
		log.Fatal(err)
	}
	defer elector.Close() // resigns
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		log.Fatal(err)
	}
	ran := make(chan bool)
	each := gocron.DurationJob(50 * time.Millisecond)
	_, err = scheduler.NewJob(each, gocron.NewTask(func(ctx context.Context) {
		ctx, cancel := elector.Context(ctx) // ends when another may be the leader
		defer cancel()
		select {
		case ran <- true:
		case <-ctx.Done():
		}
	}))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	fmt.Println("the leader runs its jobs:", <-ran)
	if err := scheduler.Shutdown(); err != nil {
		log.Fatal(err)
	}

	// Output:
	// the leader runs its jobs: true
}
