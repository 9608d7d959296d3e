package redlock_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

// readme is the code that the README shows, to the letter.
func readme(ctx context.Context, urls []string) error {
	locker, err := redlock.Open(urls) // "redis://10.0.0.1:6379" and so on, one for each independent server
	if err != nil {
		return err
	}
	defer locker.Close()
	return locker.Do(ctx, "invoice-4711", func(ctx context.Context, lock *redlock.Lock) error {
		return bill(ctx) // ctx ends when the lock is lost
	})
}

func bill(ctx context.Context) error {
	fmt.Println("billed")
	return ctx.Err()
}

func ExampleLocker_Do() {
	_, urls, stop := startServers(3)
	defer stop()
	fmt.Println(readme(context.Background(), urls))
	// Output:
	// billed
	// <nil>
}

func TestReadme_ShowsTheCodeThatRunsHere(t *testing.T) {
	t.Parallel()
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
