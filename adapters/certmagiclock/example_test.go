package certmagiclock_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/alicebob/miniredis/v2"
	"github.com/caddyserver/certmagic"

	"github.com/quorumlock/quorumlock/adapters/certmagiclock"
	"github.com/quorumlock/quorumlock/redlock"
)

func Example() {
	var urls []string
	for range 3 {
		server, err := miniredis.Run() // a Redis server inside the program, for the example
		if err != nil {
			log.Fatal(err)
		}
		defer server.Close()
		urls = append(urls, "redis://"+server.Addr())
	}
	dir, err := os.MkdirTemp("", "certificates")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	locker, err := redlock.Open(urls, redlock.WithKeyPrefix("certmagic:")) // "redis://10.0.0.1:6379" and so on
	if err != nil {
		log.Fatal(err)
	}
	storage, err := certmagiclock.New(&certmagic.FileStorage{Path: dir}, locker)
	if err != nil {
		log.Fatal(err)
	}
	certmagic.Default.Storage = storage // before certmagic.HTTPS, Listen or Manage

	ctx := context.Background() // what certmagic does with it
	if err := storage.Lock(ctx, "issue_cert_example.com"); err != nil {
		log.Fatal(err)
	}
	state, err := locker.Inspect(ctx, "issue_cert_example.com")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(state.Verdict)
	if err := storage.Unlock(ctx, "issue_cert_example.com"); err != nil {
		log.Fatal(err)
	}

	if err := storage.Wait(ctx); err != nil { // before the program exits
		log.Fatal(err)
	}
	if err := locker.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: held
}
