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
func runScheduler(ctx context.Context, urls []string, at gocron.JobDefinition, report func(context.Context) error) error {
	redlockLocker, err := redlock.Open(urls, redlock.WithKeyPrefix("shop:")) // "redis://10.0.0.1:6379" and so on
	if err != nil {
		return err
	}
	defer redlockLocker.Close()
	locker, err := gocronlock.New(redlockLocker, gocronlock.AtLeast(30*time.Second))
	if err != nil {
		return err
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return err
	}
	task := gocron.NewTask(func(ctx context.Context) error {
		ctx, cancel := locker.Context(ctx, "report") // ends when the lock is lost
		defer cancel()
		return report(ctx)
	})
	_, err = scheduler.NewJob(at, task, gocron.WithName("report")) // at is gocron.CronJob("* * * * *", false)
	if err != nil {
		return err
	}
	scheduler.Start()

	<-ctx.Done() // the program runs
	ctx = context.WithoutCancel(ctx)
	err = scheduler.Shutdown()                // jobs end
	return errors.Join(err, locker.Wait(ctx)) // locks end, before redlockLocker.Close
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
	once := gocron.OneTimeJob(gocron.OneTimeJobStartImmediately())
	var instances sync.WaitGroup
	for range 3 {
		instances.Go(func() {
			if err := runScheduler(ctx, urls, once, report); err != nil {
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
