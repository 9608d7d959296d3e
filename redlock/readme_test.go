package redlock_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// readme is the code that the README shows, to the letter.
func readme(ctx context.Context, urls []string) error {
	nodes, err := pool.Open(urls) // "redis://10.0.0.1:6379" and so on, one for each independent server
	if err != nil {
		return err
	}
	for _, node := range nodes {
		defer node.Close()
	}
	locker, err := redlock.New(nodes)
	if err != nil {
		return err
	}
	defer locker.Close()
	lock, err := locker.Lock(ctx, "invoice-4711", redlock.TTL(10*time.Second)) // waits until held, or ctx ends
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	work, cancel := lock.Context(ctx) // cancelled as soon as the lock is released, lost or expired
	defer cancel()
	return bill(work)
}

func bill(ctx context.Context) error {
	fmt.Println("billed")
	return ctx.Err()
}

func ExampleLocker_Lock() {
	_, urls, stop := startServers(3)
	defer stop()
	fmt.Println(readme(context.Background(), urls))
	// Output:
	// billed
	// <nil>
}

func TestTheReadmeShowsTheCodeThatRunsHere(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(text), "```go\n")
	require.True(t, found)
	block, _, found = strings.Cut(block, "```")
	require.True(t, found)
	source, err := os.ReadFile("readme_test.go")
	require.NoError(t, err)
	require.Contains(t, strings.ReplaceAll(string(source), "\n\t", "\n"), block)
}
