package redlock_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/quorumlock/quorumlock/redlock"
)

// render reads the files of a site, beside others that do.
func render(ctx context.Context, locker *redlock.Locker, read func(context.Context) error) error {
	return locker.Do(ctx, "site", func(ctx context.Context, _ *redlock.Lock) error {
		return read(ctx)
	}, redlock.Shared())
}

// publish replaces the files of the site, while nobody reads them.
func publish(ctx context.Context, locker *redlock.Locker, replace func(context.Context) error) error {
	return locker.Do(ctx, "site", func(ctx context.Context, _ *redlock.Lock) error {
		return replace(ctx)
	})
}

// Many read the files of a site, and one replaces them: nobody reads some that are old and some that are new.
func Example_readersAndAWriter() {
	ctx := context.Background()
	locker, stop := startLocker(redlock.WithKeyPrefix("lock:"))
	defer stop()

	var page, style string // the lock guards them
	var renders sync.WaitGroup
	for version := range 3 {
		for range 5 {
			renders.Go(func() {
				err := render(ctx, locker, func(context.Context) error {
					if page != style {
						fmt.Println("a page of version", page, "in the style of", style)
					}
					return nil
				})
				if err != nil {
					fmt.Println(err)
				}
			})
		}
		err := publish(ctx, locker, func(context.Context) error {
			page = fmt.Sprint(version)
			style = fmt.Sprint(version)
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	renders.Wait()
	fmt.Println("page", page, "style", style)

	// Output: page 2 style 2
}
